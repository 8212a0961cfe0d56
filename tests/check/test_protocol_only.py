"""What decides is computed also in runs without tile data, by whichever way it comes, and what is left out is said. That such runs
find, by the same seed, what full runs of right programs and mutants find is test_further_runs.py."""

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.runtime.simulate import prepare
from mimw.tools.search import Search
from mimw.tools.search.protocol import TileData


@mimw.jit
def chosen_by(x_ptr, y_ptr, table, HOW: tl.constexpr):
    """Where it stores is decided by what comes through a product, a buffer, a reduction or global memory."""
    at = tl.arange(0, 16)
    tile = tlx.local_alloc((16, 16), tl.float32, 1)
    full = tlx.alloc_barriers(1)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            ones = tl.load(x_ptr + at[:, None] * 16 + at[None, :])
            data = tl.exp(ones) * 2.0
            if HOW == "product":
                row = tl.sum(tl.sum(tl.dot(ones, ones, input_precision="ieee"), 0), 0).to(tl.int32) // 4096
            elif HOW == "buffer":
                tlx.barrier_wait(full[0], 0)
                row = tl.max(tl.max(tlx.local_load(tile[0]), 0), 0).to(tl.int32)
            elif HOW == "memory":
                tl.store(table + at, at + 1)
                row = tl.load(table)
            else:
                row = 1
            tl.store(y_ptr + row * 256 + at[:, None] * 16 + at[None, :], data)
        with tlx.async_task(num_warps=4):
            if HOW == "buffer":
                tlx.local_store(tile[0], tl.full((16, 16), 0.25, tl.float32) * 4.0)
                tlx.barrier_arrive(full[0])


@pytest.mark.parametrize("how", ["constant", "product", "buffer", "memory"])
def test_what_decides_an_address_is_computed(how):
    """The product of ones is 16, times 256 elements: row 1 in each way. The data that are stored there are zeros."""
    x, y, table = np.ones((16, 16), np.float32), np.full((3, 256), 7, np.float32), np.zeros(16, np.int32)
    launch = prepare(chosen_by, (1, ), (x, y, table), dict(HOW=how))
    search = Search(launch, protocol=True)
    assert search.attempt(1) is None
    assert (y[1] == 0).all() and (y[[0, 2]] == 7).all()
    data = TileData(launch)
    left_out = {op.name for op in launch.program.walk() if data.is_left_out(op)}
    assert "exp" in left_out and not left_out & {"dot", "reduce", "addptr", "fp_to_si"}


@mimw.jit
def read_early(x_ptr, y_ptr, WAIT: tl.constexpr):
    """A product's result is used before a wait."""
    at = tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :]
    tile = tlx.local_alloc((64, 64), tl.float16, 1)
    tlx.local_store(tile[0], tl.load(x_ptr + at))
    tlx.fence("async_shared")
    acc = tlx.async_dot(tile[0], tile[0])
    done = tlx.async_dot_wait(0, acc)
    if WAIT:
        acc = done
    tl.store(y_ptr + at, (acc * 2.0).to(tl.float16))


def test_a_product_read_early_is_still_found():
    def report(wait, protocol):
        x, y = np.ones((64, 64), np.float16), np.zeros((64, 64), np.float16)
        return mimw.check(read_early, (1, ), x, y, wait, seeds=2, rounds=False, protocol=protocol)

    full, quick = report(False, False), report(False, True)
    assert [finding.kind for finding in quick.findings] == [finding.kind for finding in full.findings]
    assert report(True, True).ok


@mimw.jit
def asserted(x_ptr, n):
    at = tl.arange(0, 16)
    x = tl.load(x_ptr + at) + 1.0
    tl.device_assert(x > 0.0, "tiles")
    tl.device_assert(n > 0, "numbers")
    tl.store(x_ptr + at, x)
    tlx.clock64()


def test_assertions_on_tiles_are_left_out_and_the_report_says_so():
    report = mimw.check(asserted, (1, ), np.ones(16, np.float32), 1, protocol=True, rounds=False)
    assert report.ok and any("tile data was left out" in line for line in report.unseen)
    assert mimw.check(asserted, (1, ), -np.ones(16, np.float32), 1, rounds=False, seeds=1).findings
    assert mimw.check(asserted, (1, ), -np.ones(16, np.float32), 1, rounds=False, seeds=1, protocol=True).ok
    assert mimw.check(asserted, (1, ), np.ones(16, np.float32), 0, rounds=False, seeds=1, protocol=True).findings


def test_the_command(capsys):
    from mimw.cli import main

    from .test_time import KERNELS
    assert main(["check", f"{KERNELS}:released_before_the_wait", "--protocol", "--seeds", "2", "--mend-time", "0"]) == 1
    shown = capsys.readouterr().out
    assert "OperandOverwritten" in shown and "tile data was left out" in shown
