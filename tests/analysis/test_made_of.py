"""From a store backwards: through arithmetic, loops, loads and buffers that other tasks fill; not through barriers."""

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from benchmarks.mutation_kernels import tutorial
from mimw.compiler.analysis.made_of import made_of
from mimw.compiler.analysis.written import results, written
from mimw.runtime.simulate import prepare
from tests.kernels.lines import line_of
from tests.kernels.results import adds, writes


@mimw.jit
def helped(value):
    return value + 1.0                                                  # in a helper


@mimw.jit
def in_tasks(x, y, z, n, N: tl.constexpr):
    tile, other = tlx.local_alloc((N, ), tl.float32, 1), tlx.local_alloc((N, ), tl.float32, 1)
    full = tlx.alloc_barriers(1)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tlx.barrier_wait(full[0], 0)                                # barrier
            total = tlx.local_load(tile[0])                             # read
            for i in range(n):                                          # loop
                total += tl.load(x + N * i + tl.arange(0, N))           # sum
            to = y + tl.arange(0, N)                                    # place
            tl.store(to, total)                                         # store of y
            tl.store(z + tl.arange(0, N), tlx.local_load(other[0]))     # store of z
        with tlx.async_task(num_warps=4):
            value = helped(tl.load(x + tl.arange(0, N)))                # filled with
            tlx.local_store(tile[0], value)                             # filled
            tlx.local_store(other[0], tl.zeros((N, ), tl.float32))      # filled besides
            tlx.barrier_arrive(full[0])                                 # arrive


def program_of(kernel, *args, **meta):
    return prepare(kernel, (1, ), args, meta).program


@pytest.fixture(scope="module")
def tasks():
    return program_of(in_tasks, *(np.zeros(512, np.float32) for _ in range(3)), 4, N=128)


def lines(program, store: int) -> list[int]:
    """The lines that a store's value was made at: for a line in a helper that of the call."""
    (op, ) = (op for op in program.walk() if op.name == "store" and op.site.line == store)
    return [site.line for site in made_of(program, op)]


def test_through_loops_and_the_buffers_that_another_task_fills(tasks):
    found = lines(tasks, line_of(in_tasks, "# store of y"))
    wanted = {line_of(in_tasks, f"# {mark}") for mark in ("read", "sum", "filled with", "filled\n")} | {line_of(helped, "# in a")}
    assert wanted <= set(found) and len(found) == len(set(found))
    others = ("barrier", "arrive", "place", "filled besides", "store of y", "store of z")
    assert not set(found) & {line_of(in_tasks, f"# {mark}") for mark in others}


def test_the_nearest_first(tasks):
    found = lines(tasks, line_of(in_tasks, "# store of y"))
    assert found.index(line_of(in_tasks, "# sum")) < found.index(line_of(helped, "# in a"))
    assert line_of(in_tasks, "# filled besides") in lines(tasks, line_of(in_tasks, "# store of z"))


def test_results_are_what_the_kernel_only_stores_to(tasks):
    assert written(tasks) == {"y", "z"} and set(results(tasks)) == {"y", "z"}
    x, y = np.zeros(64, np.float32), np.zeros(64, np.float32)
    for atomic in (False, True):
        program = program_of(adds, x, y, N=64, ATOMIC=atomic)
        assert written(program) == {"y"} and results(program) == {}
    assert set(results(program_of(writes, x, y, 64, N=64, SAME=False))) == {"y"}


@pytest.mark.parametrize("stem, call", [("24_raw_code", "tle.raw.call(epilogue"), ("26_mlir_text", "c.store([m, n], tle.raw.call")])
def test_through_native_code_by_what_it_declares(stem, call):
    """A product in MLIR text reads buffers that TMA fills, an epilogue in CUDA the sums."""
    program = tutorial(stem)
    kernel, grid, args, meta = program.case()
    (found, ) = mimw.check(kernel, grid, *args, expected={"c": np.ones((128, 128))}, seeds=1, shrink=False, **meta).findings
    named = {site.line for site in found.sites}
    assert found.sites[0].line == line_of(kernel, call)
    assert {line_of(kernel, "async_descriptor_load(a, left"), line_of(kernel, "async_descriptor_load(b, right")} <= named
