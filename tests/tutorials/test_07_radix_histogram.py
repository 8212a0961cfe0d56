"""Tutorial 07 on the simulator and the GPU: random keys, equal keys, a number that no block divides."""

import numpy as np
import pytest


@pytest.mark.parametrize("copies", [1, 32])
@pytest.mark.parametrize("shift, top", [(0, 1 << 8), (8, 1 << 31), (24, 1 << 31), (16, 1 << 8)])
def test_counts(machine, tutorial, shift, top, copies):
    keys, counts = np.random.default_rng(shift).integers(0, top, 5003).astype(np.int32), np.zeros(256, np.int32)
    grid, args, meta = tutorial.arguments(keys, counts, shift, COPIES=copies, BLOCK=1024, programs=3)
    machine.launch(tutorial.histogram, grid, *args, **meta)
    assert (counts == np.bincount(keys >> shift & 255, minlength=256)).all()


def test_clean(tutorial, check_kernel):
    keys, counts = np.arange(600, dtype=np.int32), np.zeros(256, np.int32)
    grid, args, meta = tutorial.arguments(keys, counts, 0, BLOCK=256, programs=2)
    check_kernel(tutorial.histogram, grid, *args, **meta)
