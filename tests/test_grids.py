"""Grids: what no launch can have is refused with the reason; what it can have is simulated without being listed first."""

import itertools
import sys
import tracemalloc

import numpy as np
import pytest
import triton.language as tl

import mimw
from mimw.compiler.launch import grid_extents
from mimw.compiler.triton_port.runtime import GPUTarget
from mimw.errors import LaunchError, SimulationError
from mimw.simulator.machine.clusters import clusters
from mimw.target import TARGETS


@mimw.jit
def number(x, BAD: tl.constexpr = -1):
    at = tl.program_id(0)
    tl.device_assert(at != BAD, "the bad one")
    tl.store(x + at % 64, at)


def out():
    return np.zeros(64, np.int32)


@pytest.mark.parametrize("grid, text", [
    ((2**31, ), "2,147,483,648 CTAs along x; a launch may have 2,147,483,647"),
    ((1, 65536), "65,536 CTAs along y; a launch may have 65,535"),
    ((1, 1, 70000), "70,000 CTAs along z"),
    ((2.5, ), "an extent of the grid is 2.5, a float"),
    ((1, 4.0), "an extent of the grid is 4.0, a float"),
    (3.0, "an extent of the grid is 3.0, a float"),
    (("2", ), "an extent of the grid is 2, a str"),
    ((), "should be 1 to 3 numbers of CTAs"),
    ((1, 1, 1, 1), "should be 1 to 3 numbers of CTAs"),
    ((-1, ), "none negative"),
], ids=str)
def test_what_no_launch_can_have(grid, text):
    for given in (grid, lambda meta: grid):
        with pytest.raises(LaunchError, match=text):
            mimw.simulate(number, given, out())
    with pytest.raises(LaunchError, match=text):
        mimw.check(number, grid, out(), seeds=1)


@pytest.mark.parametrize("grid", [3, (3, ), [3, 1], np.array([3, 1, 1]), (np.int64(3), ), lambda meta: (3, )],
                         ids=["number", "tuple", "list", "array", "numpy", "function"])
def test_whole_numbers_of_any_kind(grid):
    values = out()
    mimw.simulate(number, grid, values)
    assert values[:4].tolist() == [0, 1, 2, 0]


def test_no_ctas_do_nothing():
    values = out()
    mimw.simulate(number, (0, ), values)
    assert not values.any()


def test_the_limits_are_those_of_the_chip():
    assert grid_extents((2**31 - 1, 65535, 65535), TARGETS["sm_90a"].max_grid) == (2**31 - 1, 65535, 65535)
    assert grid_extents((1, 65536), TARGETS["gfx942"].max_grid) == (1, 65536)


@pytest.mark.parametrize("grid", [(10**9, ), (2**31 - 1, 65535, 65535)])
def test_ctas_are_made_as_their_turn_comes(grid):
    """Somewhere among the first ones there is a mistake; it is found before the others are thought of."""
    with pytest.raises(SimulationError, match="the bad one"):
        mimw.simulate(number, grid, out(), BAD=300)


def test_the_memory_of_a_cta_is_free_when_its_cluster_has_ended():
    mimw.simulate(number, (200, ), out())           # what is kept for the kernel
    tracemalloc.start()
    try:
        mimw.simulate(number, (10_000, ), values := out())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (values % 64 == np.arange(64)).all() and values.min() > 5_000
    assert peak < 2_000_000, f"{peak} bytes at most for 132 CTAs at a time"


def test_clusters_come_in_launch_order():
    """x fastest, then y, then z: of the clusters, and of the CTAs in each."""
    grid, shape = (4, 6, 2), (2, 3, 1)
    found = list(clusters(grid, shape))
    origins = [(x, y, z) for z, y, x in itertools.product(range(2), range(0, 6, 3), range(0, 4, 2))]
    assert [one[0] for one in found] == origins
    assert found[1] == [(2, 0, 0), (3, 0, 0), (2, 1, 0), (3, 1, 0), (2, 2, 0), (3, 2, 0)]
    assert sorted(itertools.chain(*found)) == sorted(itertools.product(range(4), range(6), range(2)))


@pytest.mark.parametrize("grid, error, text", [
    ((2**31, ), OverflowError("signed integer is greater than maximum"), "along x"),
    ((1, 65536), RuntimeError("Triton Error [CUDA]: invalid argument"), "along y"),
    (lambda meta: (meta["BAD"] / 2, ), TypeError("'float' object cannot be interpreted as an integer"), "a float"),
], ids=["x", "y", "fraction"])
def test_a_launch_that_the_driver_refuses_for_its_grid_says_so(grid, error, text, monkeypatch):
    """On a GPU the grid goes to the driver as it is; what that says is told in the user's words."""
    def driver(self, *args, **keywords):
        raise error

    jit = sys.modules["mimw.runtime.jit"]       # `mimw.jit` is the decorator
    monkeypatch.setattr(jit, "_LAUNCH", driver)
    monkeypatch.setattr(jit, "simulating", lambda: False)
    monkeypatch.setattr(jit, "active_target", lambda: GPUTarget("cuda", 90, 32))
    with pytest.raises(LaunchError, match=text) as caught:
        number[grid](out(), BAD=3)
    assert caught.value.__cause__ is error
    with pytest.raises(type(error)) as caught:      # the grid is right, so the error is another
        number[(1, )](out())
    assert caught.value is error


@pytest.mark.gpu
@pytest.mark.parametrize("grid, text", [((2**31, ), "along x"), ((1, 65536), "along y"), ((1.5, ), "a float")], ids=str)
def test_on_a_gpu(grid, text):
    import torch
    values = torch.zeros(64, dtype=torch.int32, device="cuda")
    with pytest.raises(LaunchError, match=text):
        number[grid](values)
    number[(3, )](values)
    assert values[:4].tolist() == [0, 1, 2, 0]
