"""The kernels that benchmarks/gather.py times gather the same rows, on the simulator; on the GPU the benchmark compares."""

import numpy as np
import pytest

import mimw
from benchmarks import gather_kernels
from benchmarks.gather_kernels import WAYS, launch_of, rows_of_tile


@pytest.mark.long(but=["128-tl.load", "32-TMA", "32-cp.async", "4096-tl.load"], everywhere=True)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("row_bytes", [32, 128, 4096])
def test_all_ways_gather_the_same(way, row_bytes, monkeypatch):
    monkeypatch.setattr(gather_kernels, "TILE_BYTES", 2048)
    random, block = np.random.default_rng(0), rows_of_tile(row_bytes)
    x = random.integers(-99, 99, (50, row_bytes // 2)).astype(np.float16)
    rows, y = random.integers(0, 50, 11 * block).astype(np.int32), np.zeros((11 * block, row_bytes // 2), np.float16)
    grid, kernel, args, meta = launch_of(way, x, rows, y, 2, True)
    mimw.simulate(kernel, grid, *args, **meta)
    assert (y == x[rows]).all()
    if way != "tl.load":
        assert mimw.check(kernel, grid, *args, seeds=2, **meta).ok


@pytest.mark.parametrize("way", WAYS)
def test_without_a_result(way):
    x, rows, y = np.ones((50, 64), np.float16), np.arange(256, dtype=np.int32) % 50, np.zeros((256, 64), np.float16)
    grid, kernel, args, meta = launch_of(way, x, rows, y, 1, False)
    mimw.simulate(kernel, grid, *args, **meta)
    assert y.any() == (way == "tl.load")


def test_part_of_a_tile_is_refused():
    x = np.ones((50, 64), np.float16)
    with pytest.raises(ValueError, match="100 row numbers are no whole tiles of 128 rows"):
        launch_of("TMA", x, np.zeros(100, np.int32), x, 1, True)
