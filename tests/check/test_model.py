"""Rules of docs/MEMORY_MODEL.md that the truth tables do not reach."""

import inspect
import re
from pathlib import Path

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.simulator.memory_model import Order, Unordered

from .tables import unfenced


def kinds(kernel, grid, *args, **meta):
    report = mimw.check(kernel, grid, *args, seeds=4, search="both", limit=20, shrink=False, **meta)
    return {finding.kind for finding in report.findings}


def test_a_machine_without_an_order_takes_the_same_calls():
    def parameters(cls, name):
        return [(one.name, one.kind, one.default) for one in inspect.signature(getattr(cls, name)).parameters.values()]

    names = [name for name, member in vars(Unordered).items() if inspect.isfunction(member)]
    assert len(names) > 25 and not Unordered.active and Order.active
    assert [name for name in names if parameters(Unordered, name) != parameters(Order, name)] == []
    assert {name for name in dir(Order) if not name.startswith("_")} - {*names, "active"} == {
        "forget_barriers", "forget_barriers_among", "place"}


@mimw.jit
def around_a_region(x_ptr, y_ptr):
    tile = tlx.local_alloc((16, 32), tl.float16, 2)
    at = tl.arange(0, 16)[:, None] * 32 + tl.arange(0, 32)[None, :]
    tlx.local_store(tile[0], tl.load(x_ptr + at))
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tl.static_assert(True)
        with tlx.async_task(num_warps=4):
            tlx.local_store(tile[1], tlx.local_load(tile[0]))
    tl.store(y_ptr + at, tlx.local_load(tile[1]))


def test_a_region_starts_and_ends_in_order():
    x, y = np.ones((16, 32), np.float16), np.zeros((16, 32), np.float16)
    assert kinds(around_a_region, 1, x, y) == set()


@mimw.jit
def met(x_ptr):
    ready = tlx.alloc_barriers(1)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tlx.barrier_wait(ready[0], 0)
        with tlx.async_task(num_warps=1):
            tlx.barrier_arrive(ready[0])


def test_a_barrier_made_by_the_kernel_is_ready_in_its_tasks():
    assert kinds(met, 1, np.zeros(1, np.float32)) == set()


@mimw.jit
def into_one_place(y_desc, REDUCE: tl.constexpr):
    tile = tlx.local_alloc((16, 32), tl.float32, 1)
    tlx.local_store(tile[0], tl.full((16, 32), 1.0, tl.float32))
    tlx.fence("async_shared")
    tlx.async_descriptor_store(y_desc, tile[0], [0, 0], store_reduce=REDUCE)
    tlx.async_descriptor_store_wait(0)


@pytest.mark.parametrize("reduce, found", [("add", set()), ("", {"DataRace"})])
def test_reductions_into_one_place(reduce, found):
    """Programs may add to one tile, not write it."""
    y = mimw.TensorDescriptor.from_tensor(np.zeros((16, 32), np.float32), [16, 32])
    assert kinds(into_one_place, 2, y, reduce) == found


@mimw.jit
def multiplied(a_ptr, b_ptr, c_ptr, OTHER: tl.constexpr, FENCE: tl.constexpr):
    a_tile = tlx.local_alloc((64, 64), tl.float16, 1)
    b_tile = tlx.local_alloc((64, 64), tl.float16, 1)
    full = tlx.alloc_barriers(1)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            at = tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :]
            if OTHER:
                tlx.barrier_wait(full[0], 0)
            else:
                tlx.local_store(a_tile[0], tl.load(a_ptr + at))
                tlx.local_store(b_tile[0], tl.load(b_ptr + at))
            acc = tlx.async_dot(a_tile[0], b_tile[0])
            tl.store(c_ptr + at, tlx.async_dot_wait(0, acc))
        with tlx.async_task(num_warps=4):
            if OTHER:
                here = tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :]
                tlx.local_store(a_tile[0], tl.load(a_ptr + here))
                tlx.local_store(b_tile[0], tl.load(b_ptr + here))
                if FENCE:
                    tlx.fence("async_shared")
                tlx.barrier_arrive(full[0])


@pytest.mark.parametrize("other, fence, found", [
    (False, False, set()), (True, True, set()), (True, False, {"MissingFence"})])
def test_operands_written_by_whom(other, fence, found):
    """What the task wrote itself needs no fence, what another one wrote does."""
    a, b, c = np.ones((64, 64), np.float16), np.ones((64, 64), np.float16), np.zeros((64, 64), np.float32)
    report = unfenced((multiplied, (1, ), (a, b, c, other, fence), {}))
    assert {finding.kind for finding in report.findings} == found
    assert not kinds(multiplied, 1, a, b, c, other, fence), "the compiler puts it in"


def test_every_rule_names_tests_that_exist():
    root = Path(__file__).parents[2]
    files = {"T": "test_truth_tables.py", "C": "test_truth_tables_cluster.py", "G": "test_truth_tables_global.py",
             "P": "test_truth_tables_proxies.py", "R": "test_truth_tables_rows.py", "W": "test_wrong_programs.py",
             "L": "test_truth_tables_launch_control.py", "M": "test_model.py", "K": "test_error_classes.py",
             "B": "test_truth_tables_tensor.py", "Q": "test_truth_tables_pairs*.py", "D": "test_truth_tables_descriptors.py",
             "N": "test_truth_tables_gpus.py", "U": "test_truth_tables_multimem.py", "H": "test_truth_tables_halves.py",
             "V": "test_truth_tables_mover.py", "A": "test_truth_tables_allocations.py"}
    tests = {letter: "".join(file.read_text() for file in (root / "tests" / "check").glob(name)) for letter, name in files.items()}
    rules = [line for line in (root / "docs" / "MEMORY_MODEL.md").read_text().splitlines() if re.match(r"\| \d+ \|", line)]
    assert [int(line.split("|")[1]) for line in rules] == list(range(1, 51))
    for line in rules:
        assert line.split("|")[-3].strip(), f"no section of the PTX manual: {line}"
        named = re.findall(r"([TCGPRLWMKBQDNUHVA])? ?`(\w+)`", line.split("|")[-2])
        assert named, line
        letter = None
        for word, name in named:
            letter = word or letter
            assert f"def test_{name}(" in tests[letter], f"{name} of: {line}"
