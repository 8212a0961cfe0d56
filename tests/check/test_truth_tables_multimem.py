"""Truth tables of the memory of all GPUs at once: a message to all ranks by one store and one signal; sums that have to wait."""

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx

from .tables import SWITCHES, found, right, states


@mimw.jit
def told(x, flag, y, world, N: tl.constexpr, SAID: tl.constexpr, SAY: tl.constexpr, FENCED: tl.constexpr):
    """Rank 0 writes at all ranks, and tells all of them by one word."""
    at = tl.arange(0, N)
    if tlx.world_rank(world) == 0:
        tlx.multimem_store(tlx.multicast_pointer(x, world) + at, at * 1.0)
        if FENCED:
            tlx.fence("sys")
        if SAID == "add":
            tlx.multimem_reduce(tlx.multicast_pointer(flag, world), 1, sem=SAY)
        else:
            tlx.multimem_store(tlx.multicast_pointer(flag, world), 1, sem=SAY)
    tlx.wait_signal(flag, 1)
    tl.store(y + at, tl.load(x + at))


def telling(said="add", say="release", fenced=False):
    world = mimw.World(2, multicast=True)
    x, flag = world.symmetric(64, "float32", "x"), world.symmetric(1, "int32", "flag")
    return told, 1, (x, flag, world.each(lambda rank: np.zeros(64, np.float32), "y"), world, 64, said, say, fenced), {}


@states("multimem_reduce", "multimem_store", "signal_wait")
def a_signal_to_all_ranks():
    return telling()


@pytest.mark.parametrize("said", ["add", "set"])
@pytest.mark.parametrize("say", ["release", "relaxed"])
@pytest.mark.parametrize("fenced", SWITCHES)
def test_a_signal_to_all_ranks_is_a_release_or_behind_a_fence(said, say, fenced):
    launch = telling(said, say, fenced)
    assert right(launch, "random") == (say == "release" or fenced)
    if say == "relaxed" and not fenced:
        assert found(launch, "MissingSystemFence")


@mimw.jit
def summed(x, y, world, N: tl.constexpr, MEETS: tl.constexpr, MEETS_AGAIN: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(x + at, at + 1.0)
    if MEETS:
        tlx.world_barrier(world)
    tl.store(y + at, tlx.multimem_load_reduce(tlx.multicast_pointer(x, world) + at))
    if MEETS_AGAIN:
        tlx.world_barrier(world)
    tl.store(x + at, 0.0)


def summing(meets=True, meets_again=True):
    world = mimw.World(2, multicast=True)
    x, y = world.symmetric(64, "float32", "x"), world.each(lambda rank: np.zeros(64, np.float32), "y")
    return summed, 1, (x, y, world, 64, meets, meets_again), {}


@states("multimem_load_reduce", "world_barrier")
def a_sum_over_the_ranks():
    return summing()


@pytest.mark.parametrize("meets", SWITCHES)
@pytest.mark.parametrize("again", SWITCHES)
def test_a_sum_over_the_ranks_stands_between_two_barriers(meets, again):
    """What the peers wrote is there, and stays until it has been read."""
    assert right(summing(meets, again), "random") == (meets and again)
