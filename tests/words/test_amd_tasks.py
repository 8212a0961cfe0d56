"""Tasks and barriers of one source on every chip that has them: equal results on the simulator, and mistakes that `check` finds."""

import numpy as np
import pytest

import mimw
from tests.kernels import waves

CHIPS = ("sm_90a", "gfx942", "gfx950", "gfx1250")
N = 256


def rows(count, dtype=np.float32, n=N):
    return np.random.default_rng(count).integers(-8, 8, (count, n)).astype(dtype)


def simulated(kernel, x, target, *args, shape=None, **options):
    y = np.zeros(shape or x.shape, np.float32)
    mimw.simulate(kernel, (1, ), x, y, *args, target=target, **options)
    return y


@pytest.mark.long(but=["1-gfx1250", "1-sm_90a", "2-gfx942", "4-gfx950"], everywhere=True)
@pytest.mark.parametrize("target", CHIPS)
@pytest.mark.parametrize("warps", [1, 2, 4])
def test_a_ring(target, warps):
    x = rows(5)
    assert (simulated(waves.ring, x, target, 5, N, 2, warps) == x * x.sum(1, keepdims=True)).all()


@pytest.mark.parametrize("target", CHIPS)
def test_syncs_in_tasks_of_two_regions(target):
    x = rows(7, n=1024)
    assert (simulated(waves.regions, x, target, 1024) == x.cumsum(1) + x.sum(1, keepdims=True)).all()


@pytest.mark.parametrize("target", CHIPS)
def test_a_region_in_a_loop(target):
    x = rows(4)
    assert (simulated(waves.looped, x, target, 4, N) == x * x.sum(1, keepdims=True)).all()


@pytest.mark.parametrize("target", CHIPS)
@pytest.mark.parametrize("kernel", [waves.by_warps, waves.by_numbers])
def test_barriers_of_warps_and_of_numbers(target, kernel):
    x = rows(4)
    for warps in (1, 4):
        assert (simulated(kernel, x, target, 4, N, warps, races=True) == 2 * x).all()


@pytest.mark.parametrize("target", CHIPS)
def test_copies_and_products(target):
    x = rows(3, np.float16, 1024)
    tiles = x.reshape(3, 16, 64).astype(np.float32)
    found = simulated(waves.copied, x, target, 3, 1024, 2, shape=(3, 256))
    assert (found.reshape(3, 16, 16) == tiles @ tiles.transpose(0, 2, 1)).all()


@pytest.mark.parametrize("target", ["gfx942", "gfx1250"])
@pytest.mark.parametrize("flip, early, found", [(0, 0, ""), (1, 0, "PhaseOffByOne"), (0, 1, "PhaseMissed")])
def test_check(target, flip, early, found):
    """The filling task waits for the other phase, or the reading one gives a slot back before it has waited for it."""
    x = rows(5)
    report = mimw.check(waves.ring, (1, ), x, np.zeros_like(x), 5, N, 2, 4, flip, early, target=target)
    assert report.ok == (not found) and (not found or found in {one.kind for one in report.findings})
