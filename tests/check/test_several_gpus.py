"""What `mimw.check` leaves out and adds on several GPUs as on one: smaller launches, samples of CTAs, runs without tile data."""

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.errors import SimulatorMisuse, TargetError
from mimw.runtime.simulate import prepare
from mimw.tools.search.clusters import cluster_at
from mimw.tools.search.protocol import TileData
from mimw.tools.search.sample import chosen
from mimw.tools.search.together import together
from tests.kernels.several_gpus import gathering


@mimw.jit
def passing(x, y, z, flags, world, K, N: tl.constexpr, STAGES: tl.constexpr, HOW: tl.constexpr):
    """K chunks of each program go to the next rank through a ring of slots; the exponentials of what came are stored.

    HOW "no chunk": the receiver is not told if there is none. "reused": a slot is given back before the copy out of it ended."""
    right, pid = (tlx.world_rank(world) + 1) % tlx.world_size(world), tl.program_id(0)
    ring, at = tlx.local_alloc((N, ), tl.float32, STAGES), tl.arange(0, N)
    full, free = tlx.alloc_barriers(STAGES), tlx.alloc_barriers(STAGES)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            for i in range(K):
                tlx.barrier_wait(full[i % STAGES], (i // STAGES) & 1)
                tlx.async_store(tlx.peer_pointer(x, right, world) + (pid * 8 + i) * N, ring[i % STAGES], N * 4)
                if HOW != "reused":
                    tlx.async_descriptor_store_wait(0)
                tlx.barrier_arrive(free[i % STAGES])
            tlx.async_descriptor_store_wait(0)
            if K > 0 or HOW != "no chunk":
                tlx.signal(tlx.peer_pointer(flags, right, world) + pid)
            tlx.wait_signal(flags + pid, 1)
            for i in range(K):
                tl.store(z + (pid * 8 + i) * N + at, tl.exp(tl.load(x + (pid * 8 + i) * N + at)) * 2)
        with tlx.async_task(num_warps=1):
            for i in range(K):
                tlx.barrier_wait(free[i % STAGES], ((i // STAGES) & 1) ^ 1)
                tlx.barrier_expect_bytes(full[i % STAGES], N * 4)
                tlx.async_load(y + (pid * 8 + i) * N, ring[i % STAGES], bulk=True, barrier=full[i % STAGES])


def passed(how="", gpus=2, programs=1, chunks=3, n=16):
    world, size = mimw.World(gpus), programs * 8 * n
    x, flags = world.symmetric(size, "float32", "x"), world.symmetric(programs, "int32", "flags")
    y, z = (world.each(lambda rank: np.full(size, rank, np.float32), name) for name in "yz")
    return passing, (programs, ), x, y, z, flags, world, chunks, n, 2, how


def test_as_many_rounds_as_break_rings():
    report = mimw.check(*passed(), seeds=2)
    assert report.ok and [str(one) for one in report.tried] and {0, 1, 2} <= {count for one in report.tried
                                                                              for count in one.rounds.values()}


def test_what_only_fewer_rounds_show():
    report = mimw.check(*passed("no chunk"), seeds=2)
    assert [(finding.kind, finding.sizes) for finding in report.findings] == [("SignalNeverSent", {"K": 0})]
    assert mimw.check(*passed("no chunk"), seeds=2, rounds=False).ok


@mimw.jit
def steps(x, flags, world, ROUNDS):
    """Rounds over all ranks: how many there are is not loaded data but known."""
    for r in range(ROUNDS):
        for step in range(tlx.world_size(world)):
            tlx.signal(tlx.peer_pointer(flags, step, world))
        tlx.wait_signal(flags, (r + 1) * tlx.world_size(world))


def test_loops_over_the_ranks_are_known():
    world = mimw.World(3)
    x, flags = world.symmetric(4, "int32", "x"), world.symmetric(1, "int32", "flags")
    report = mimw.check(steps, (1, ), x, flags, world, 3, seeds=1)
    assert report.ok and [one.sizes for one in report.tried] == [{"ROUNDS": 0}, {"ROUNDS": 2}] or report.tried


@pytest.mark.parametrize("how", ["", "reused"])
def test_runs_without_tile_data_find_the_same(how):
    full, quick = (mimw.check(*passed(how), seeds=3, rounds=False, shrink=False, protocol=protocol) for protocol in (False, True))
    assert [finding.kind for finding in full.findings] == [finding.kind for finding in quick.findings]
    assert full.ok == (not how) and full.ops == quick.ops


@mimw.jit
def told_by_tiles(x, y, flags, world, N: tl.constexpr):
    """What is awaited, and what is stored to the word that is waited for, comes through tiles."""
    peer, at = 1 - tlx.world_rank(world), tl.arange(0, N)
    count = tl.sum(tl.load(x + at) * 2, 0)
    data = tl.exp(tl.load(y + at))
    tl.store(tlx.peer_pointer(y, peer, world) + N + at, data)
    tlx.fence("sys")
    tl.store(flags + 1 + at, count + at)
    tlx.signal(tlx.peer_pointer(flags, peer, world), count, op="set")
    tlx.wait_signal(flags, count, compare="eq")
    tlx.wait_signal(flags + 1, 2 * N)


def test_what_is_awaited_is_computed():
    world = mimw.World(2)
    x = world.each(lambda rank: np.ones(16, np.int32), "x")
    y, flags = world.symmetric(32, "float32", "y"), world.symmetric(32, "int32", "flags")
    launch = prepare(told_by_tiles, (1, ), (x, y, flags, world, 16), {})
    left_out = {op.name for op in launch.program.walk() if TileData(launch).is_left_out(op)}
    assert "exp" in left_out and not left_out & {"muli", "mul", "reduce", "add", "addi"}
    assert mimw.check(told_by_tiles, (1, ), x, y, flags, world, 16, seeds=2, protocol=True).ok


@mimw.jit
def pairs(x, flags, world, N: tl.constexpr, WIDE: tl.constexpr, RACE: tl.constexpr):
    """Programs in groups of WIDE count up one word at the next rank, and each waits for all of its group there."""
    right, pid = (tlx.world_rank(world) + 1) % tlx.world_size(world), tl.program_id(0)
    at = (pid % (tl.num_programs(0) - RACE)) * N + tl.arange(0, N)
    tl.store(tlx.peer_pointer(x, right, world) + at, pid)
    tlx.signal(tlx.peer_pointer(flags, right, world) + pid // WIDE)
    tlx.wait_signal(flags + pid // WIDE, WIDE)
    tl.load(x + at)


def grouped(programs=24, wide=2, race=0, gpus=2):
    world = mimw.World(gpus)
    return (pairs, (programs, ), world.symmetric(programs * 16, "int32", "x"), world.symmetric(programs, "int32", "flags"), world,
            16, wide, race)


def prepared(kernel, grid, *args):
    return prepare(kernel, grid, args, {})


def test_programs_that_wait_for_each_other_run_together():
    launch = prepared(*grouped())
    assert together(launch)[:3] == [(0, 1), (0, 1), (2, 3)]
    assert together(prepared(*grouped(6, 6))) == [tuple(range(6))] * 6
    clusters = chosen("sample", launch)(0, launch)
    assert [cluster[0][0] for cluster in clusters][:2] == [0, 1] and len(clusters) == 6
    assert chosen([(5, )], launch)(0, launch) == (cluster_at(launch, 4), cluster_at(launch, 5))
    assert chosen("sample", prepared(*grouped(6, 6)))(0, prepared(*grouped(6, 6))) == ()       # all of the grid


def test_a_sample_of_programs():
    report = mimw.check(*grouped(), seeds=3, ctas="sample")
    assert report.ok and "6 of 24 clusters a run" in report.unseen[0]
    assert "for all 24 clusters; no two store" in report.unseen[1]
    report = mimw.check(*grouped(race=1), seeds=1, ctas=[(4, )])        # programs 0 and 23, of which neither is in the sample
    assert [finding.kind for finding in report.findings] == ["DataRace"]
    assert {index[0] for index in report.findings[0].ctas} == {0, 23}


def test_a_wrong_program_of_a_sample_is_found():
    report = mimw.check(*passed("reused", programs=6), seeds=2, ctas="sample", shrink=False)
    assert not report.ok and report.unseen


@mimw.jit
def by_data(places, flags, world):
    tlx.signal(tlx.peer_pointer(flags, 0, world) + tl.atomic_add(places, 1))
    tlx.wait_signal(tlx.peer_pointer(flags, 0, world) + tl.program_id(0), 1)


def test_a_sample_whose_signals_depend_on_data_is_refused():
    world = mimw.World(2)
    places, flags = world.symmetric(1, "int32", "places"), world.symmetric(64, "int32", "flags")
    with pytest.raises(SimulatorMisuse, match="by_data cannot be checked by a sample"):
        mimw.check(by_data, (24, ), places, flags, world, ctas="sample")


def test_a_gather_by_samples_and_without_data_is_right():
    kernel, grid, args, meta = gathering(2)
    assert mimw.check(kernel, grid, *args, seeds=2, ctas="sample", protocol=True, **meta).ok


@mimw.jit
def told_everywhere(x, flags, world, ROUNDS):
    """Program 0 of rank 0 tells all programs of all ranks at once, in as many rounds as there are ranks, and more."""
    pid = tl.program_id(0)
    for r in range(ROUNDS):
        if tlx.world_rank(world) + pid == 0:
            tlx.multimem_reduce(tlx.multicast_pointer(flags, world), 1, sem="release")
        tlx.wait_signal(flags, r + 1)
    tl.store(x + pid, tl.exp(tl.load(x + pid)))


def test_all_ranks_at_once():
    """As through pointers to one peer: smaller launches, and no sample where words of all ranks say who waits for whom."""
    world = mimw.World(2, multicast=True)
    x, flags = world.each(lambda rank: np.zeros(24, np.float32), "x"), world.symmetric(1, "int32", "flags")
    report = mimw.check(told_everywhere, (24, ), x, flags, world, 4, seeds=2)
    assert report.ok and {one.sizes["ROUNDS"] for one in report.tried} >= {0, 2}
    with pytest.raises(SimulatorMisuse, match="signals all ranks at once"):
        mimw.check(told_everywhere, (24, ), x, flags, world, 4, ctas="sample")
    with pytest.raises(TargetError, match="no figure 'link.multicast_ns'"):
        mimw.predict(told_everywhere, (2, ), x, flags, world, 2)


@mimw.jit
def fed_by_signals(x, flags, world, SENDS: tl.constexpr):
    """A task waits for a signal and hands on to another one by a barrier."""
    full = tlx.alloc_barriers(1)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tlx.barrier_wait(full[0], 0)
            tl.store(x, 1)
        with tlx.async_task(num_warps=1):
            if SENDS:
                tlx.signal(tlx.peer_pointer(flags, 1 - tlx.world_rank(world), world))
            tlx.wait_signal(flags, 1)
            tlx.barrier_arrive(full[0])


@pytest.mark.parametrize("sends", [True, False])
def test_who_waits_for_who_waits_for_a_signal_does_so_too(sends):
    world = mimw.World(2)
    x, flags = world.each(lambda rank: np.zeros(1, np.int32), "x"), world.symmetric(1, "int32", "flags")
    report = mimw.check(fed_by_signals, (1, ), x, flags, world, sends, seeds=2)
    assert [finding.kind for finding in report.findings] == ([] if sends else ["SignalNeverSent"])
