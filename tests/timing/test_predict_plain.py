"""Predictions of kernels of plain Triton: what its pipeliner hides, and which bytes pointers ask for."""

from importlib import import_module

import ml_dtypes
import numpy as np
import pytest
import triton.language as tl

import mimw
from benchmarks.plain_gemm import by_pointers
from mimw.compiler.analysis.addressed import addressed
from mimw.simulator.clock.pipelined import find_pipelined
from mimw.simulator.clock.sectors import sectors


def product(size=1024, bm=64, bn=64, bk=64, stages=3, warps=4):
    arrays = [np.empty((size, size), ml_dtypes.bfloat16) for _ in range(3)]
    meta = dict(BM=bm, BN=bn, BK=bk, GROUP_M=8, num_warps=warps, num_stages=stages)
    return mimw.predict(by_pointers, (size // bm * (size // bn), ), *arrays, size, size, size, target="sm_90a", **meta)


def test_more_stages_hide_more_of_the_loads():
    one, two, three = (product(stages=stages).microseconds for stages in (1, 2, 3))
    assert one > 1.1 * two > 1.1 * three


def test_no_unit_is_busy_for_more_than_all_of_the_time():
    found = product(2048, 128, 128)
    assert found.units and max(found.units.values()) <= 1.0


def test_tiles_of_a_band_are_fetched_once():
    """16 x 16 programs start together: of the 2 x 64 KiB that each asks for all 16 of a row, or column, ask."""
    assert product().from_dram < 0.2


@pytest.mark.parametrize("stages", [1, 4])
def test_each_trip_asks_for_its_own_bytes(stages):
    """8 x 8 programs, of which 8 ask for each byte; also where the loads of the first trips are asked for at once."""
    assert product(512, stages=stages).from_dram == pytest.approx(1 / 8)


def test_a_plain_kernel_stays_with_as_many_as_its_binary_says():
    """Three stages of 128 x 64 and 64 x 128 in bf16 are 96 KiB: two CTAs an SM; with one stage registers decide."""
    assert product(2048, 128, 128).residency == (2, "shared memory")
    assert product(2048, 128, 128, stages=1).residency == (2, "registers")


@mimw.jit
def scattered(x, y, STEP: tl.constexpr):
    at = tl.program_id(0) * 1024 + tl.arange(0, 1024)
    tl.store(y + at, tl.load(x + at * STEP))


def test_single_elements_move_whole_sectors():
    """Two bytes of every 64: a sector of 32 bytes for each."""
    x, y = (np.empty(size << 21, ml_dtypes.bfloat16) for size in (32, 1))
    near, far = (mimw.predict(scattered, (2048, ), x, y, target="sm_90a", STEP=step) for step in (1, 32))
    assert far.units["inbound"] * far.cycles == pytest.approx(16 * near.units["inbound"] * near.cycles, rel=0.05)


def test_sectors_of_tiles():
    rows = np.arange(8)[:, None] * 4096 + np.arange(32)[None, :] * 2
    assert list(sectors(rows)) == [row * 128 + half for row in range(8) for half in (0, 1)]
    assert list(sectors(rows.T)) == list(sectors(rows)) and list(sectors(rows, rows < 64)) == [0, 1]
    assert list(sectors(np.array([4096, 0, 2]))) == [0, 128]


def program_of(kernel, *args, **meta):
    return import_module("mimw.runtime.simulate").prepare(kernel, (1, ), args, meta, "sm_90a").program


def test_what_triton_pipelines():
    arrays = [np.empty((64, 64), ml_dtypes.bfloat16) for _ in range(3)]
    program = program_of(by_pointers, *arrays, 64, 64, 64, BM=64, BN=64, BK=64, GROUP_M=8)
    found = find_pipelined(program, 3)
    assert list(found.stages.values()) == [3] and len(found.loads) == 2 and len(found.products) == 1
    assert not find_pipelined(program, 1).stages


@mimw.jit
def indirect(x, rows, y):
    at = tl.arange(0, 64)
    tl.store(y + at, tl.load(x + tl.load(rows + at)))


def test_addresses_that_memory_decides_are_not_computed():
    program = program_of(indirect, np.zeros(64, np.float32), np.zeros(64, np.int32), np.zeros(64, np.float32))
    inner, outer = program.named("load")
    assert inner.pointer in addressed(program) and outer.pointer not in addressed(program)


@mimw.jit
def softmax(x, y, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    row = tl.load(x + at).to(tl.float32)
    weights = tl.exp(row - tl.max(row, 0))
    tl.store(y + at, (weights / tl.sum(weights, 0)).to(tl.bfloat16))


def test_a_softmax_takes_what_its_bytes_take_and_not_much_more():
    """512 MiB at 4.3 TB/s are 125 us."""
    x = np.empty((1 << 15, 4096), ml_dtypes.bfloat16)
    found = mimw.predict(softmax, (1 << 15, ), x, x, target="sm_90a", N=4096, num_warps=4)
    assert 125 < found.microseconds < 190 and found.residency[0] > 8 and found.units["DRAM"] <= 1
