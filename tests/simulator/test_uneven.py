"""Ranks that die, that are late, and that differ in pace: what the others report, and what goes on as ever."""

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.errors import RankDied, SimulatorMisuse
from tests.kernels.several_gpus import gather, gathered, stream


@mimw.jit
def meets(x, world, ROUNDS: tl.constexpr):
    for r in range(ROUNDS):
        tl.store(x, r)
        tlx.world_barrier(world)


def streaming(rounds=4, **faults):
    world = mimw.World(2, **faults)
    x, flag, back = (world.symmetric(1, "int32", name) for name in ("x", "flag", "back"))
    return stream, (1, ), x, flag, back, world.each(lambda rank: np.zeros(rounds, np.int32), "y"), world, rounds


def test_what_the_others_report_of_a_rank_that_dies():
    world = mimw.World(4, dies={2: 7})
    with pytest.raises(RankDied) as told:
        mimw.simulate(meets, (1, ), world.symmetric(1, "int32", "x"), world, 9)
    said = told.value.message
    assert "rank 2 died after 7 steps, the last behind its wait at" in said and "MIMW_WATCHDOG" in told.value.hint
    for rank in (0, 1, 3):
        assert f"rank {rank} would report RankMissing:" in said
    assert said.count("to which have not come: rank 2, which has died") == 3


def test_a_rank_that_waits_for_a_signal_of_a_dead_one():
    with pytest.raises(RankDied, match="rank 1 would report SignalNeverSent") as told:
        mimw.simulate(*streaming(dies={0: 0}))
    assert "rank 0 died after 0 steps\n" in told.value.message and "'flag'[0] of rank 1 to be >= 1: it is 0" in told.value.message


def test_a_rank_nobody_waits_for_any_more():
    """What rank 1 had stored until it died stays; rank 0 comes to its end."""
    *launch, y, world, rounds = streaming(rounds=1, dies={1: 3})
    mimw.simulate(*launch, y, world, rounds)
    assert launch[2][1][0] == 1 and y[1][0] == 0


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("late", [{1: 10_000}, {0: 20, 2: 40}])
def test_who_is_late_is_waited_for(late, seed):
    world, n = mimw.World(3, late=late), 16
    x = world.each(lambda rank: np.full((n, n), rank + 1, np.float32), "x")
    whole, flags = world.symmetric((3, n, n), "float32", "whole"), world.symmetric(3, "int32", "flags")
    out = world.each(lambda rank: np.zeros((3, n, n), np.float32), "out")
    mimw.simulate(gather, (1, ), x, whole, out, flags, world, n, seed=seed, races=True)
    assert all((one == gathered(3)).all() for one in out)


@mimw.jit
def first_come(order, place, world):
    """The number that a rank draws from rank 0's counter."""
    tl.store(order, tl.atomic_add(tlx.peer_pointer(place, 0, world), 1, scope="sys"))
    tlx.clock64()


def drawn(gpus=3, seed=0, **faults):
    world = mimw.World(gpus, **faults)
    order, place = world.each(lambda rank: np.zeros(1, np.int32), "order"), world.symmetric(1, "int32", "place")
    mimw.simulate(first_come, (1, ), order, place, world, seed=seed)
    return [int(one[0]) for one in order]


def test_arrivals_come_in_any_order():
    for late in range(3):
        assert {drawn(seed=seed, late={late: 100})[late] for seed in range(3)} == {2}
    assert drawn(late={0: 100, 1: 200})[2] == 0
    assert len({tuple(drawn(seed=seed)) for seed in range(30)}) == 6


def test_paces_are_drawn_by_seeds_only():
    """Seed 0 draws none; one seed is one run."""
    launch = streaming()
    traces = [[(event.cta, event.lane, event.start) for event in mimw.simulate(*streaming(), seed=seed, trace=True).trace.events]
              for seed in (0, 0, 5, 5)]
    assert traces[0] == traces[1] and traces[2] == traces[3] and mimw.check(*launch, seeds=12).ok


@mimw.jit
def spins(flag, world):
    tl.atomic_store(tlx.peer_pointer(flag, 1 - tlx.world_rank(world), world), 1, sem="release", scope="sys")
    while tl.atomic_load(flag, sem="acquire", scope="sys") == 0:
        pass


def test_a_fast_rank_that_spins_lets_the_slow_one_have_its_turn():
    """Of 16 tasks drawn one is nearly always the fast rank's, so a spin would be called a livelock."""
    for seed in range(12):
        world = mimw.World(2)
        mimw.simulate(spins, (4, ), world.symmetric(1, "int32", "flag"), world, seed=seed)


def test_a_check_with_a_fault_says_so():
    report = mimw.check(*streaming(dies={0: 5}), seeds=2, shrink=False)
    assert {finding.kind for finding in report.findings} == {"RankDied"}
    report = mimw.check(*streaming(dies={0: 5}), search="systematic", limit=10, shrink=False)
    assert {finding.kind for finding in report.findings} == {"RankDied"}


@pytest.mark.parametrize("faults", [dict(dies={2: 1}), dict(late={0: -1}), dict(dies={0: True})])
def test_misuse(faults):
    with pytest.raises(SimulatorMisuse, match="in a world of 2 GPUs"):
        mimw.World(2, **faults)
