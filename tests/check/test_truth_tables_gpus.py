"""Truth tables of what orders two GPUs: message passing, store buffering and independent reads by each scope and order, puts by TMA
and the signal behind them, signals that are used again, barriers of ranks."""

import itertools

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from .tables import found, lines_of, right, states

MESH = tle.device_mesh({"device": 2})


@mimw.jit
def message(x, flag, y, world, SAID: tl.constexpr, SAY: tl.constexpr, HEAR: tl.constexpr, SAY_SCOPE: tl.constexpr,
            HEAR_SCOPE: tl.constexpr, SAY_FENCE: tl.constexpr, HEAR_FENCE: tl.constexpr):
    """Rank 0 puts a number into rank 1's memory, and tells rank 1 by a signal."""
    if tlx.world_rank(world) == 0:
        tl.store(tlx.peer_pointer(x, 1, world), 7)
        if SAY_FENCE != "":
            tlx.fence(SAY_FENCE)
        tlx.signal(tlx.peer_pointer(flag, 1, world), 1, op=SAID, sem=SAY, scope=SAY_SCOPE)
    else:
        tlx.wait_signal(flag, 1, sem=HEAR, scope=HEAR_SCOPE)
        if HEAR_FENCE != "":
            tlx.fence(HEAR_FENCE)
        tl.store(y, tl.load(x))


def passed(said="add", say="release", hear="acquire", say_scope="sys", hear_scope="sys", say_fence="", hear_fence=""):
    world = mimw.World(2)
    x, flag = world.symmetric(1, "int32", "x"), world.symmetric(1, "int32", "flag")
    y = world.each(lambda rank: np.zeros(1, np.int32), "y")
    return message, 1, (x, flag, y, world, said, say, hear, say_scope, hear_scope, say_fence, hear_fence), {}


@states("signal_wait", "atomic_rmw")
def a_message_by_adding():
    return passed()


@states("signal_wait", "atomic_store")
def a_message_by_setting():
    return passed("set")


@mimw.jit
def stored_flag(flag, world):
    if tlx.world_rank(world) == 0:
        tl.store(tlx.peer_pointer(flag, 1, world), 1)
    else:
        tlx.wait_signal(flag, 1)


def test_an_ordinary_store_is_no_signal():
    world = mimw.World(2)
    finding = found((stored_flag, 1, (world.symmetric(1, "int32", "flag"), world), {}), "DataRace")
    assert "is no atomic" in finding.message and 'tlx.signal(pointer, value, op="set")' in finding.hint


@pytest.mark.parametrize("said", ["add", "set"])
@pytest.mark.parametrize("say_scope, hear_scope", list(itertools.product(("gpu", "sys"), repeat=2)))
def test_a_message_needs_system_scope_on_both_sides(said, say_scope, hear_scope):
    """As in ROCm/iris#462: with the scope of a GPU on either side a program hangs or reads old data, now and then."""
    launch = passed(said, say_scope=say_scope, hear_scope=hear_scope)
    ok = (say_scope, hear_scope) == ("sys", "sys")
    assert right(launch, "random") == ok
    if not ok:
        finding = found(launch, "ScopeTooNarrow")
        assert 'scope="sys"' in finding.hint and "rank 1" in finding.message and lines_of(finding) == {27, 29}


@pytest.mark.parametrize("say, say_fence", list(itertools.product(("release", "relaxed"), ("", "gpu", "sys"))))
@pytest.mark.parametrize("hear, hear_fence", [("acquire", ""), ("relaxed", ""), ("relaxed", "gpu"), ("relaxed", "sys")])
def test_a_message_needs_release_and_acquire_or_a_fence_of_system_scope(say, hear, say_fence, hear_fence):
    launch = passed(say=say, hear=hear, say_fence=say_fence, hear_fence=hear_fence)
    ok = (say == "release" or say_fence == "sys") and (hear == "acquire" or hear_fence == "sys")
    assert right(launch, "random") == ok
    if not ok and (say_fence, hear_fence) == ("", ""):
        assert 'fence("sys")' in found(launch, "MissingSystemFence").hint


@mimw.jit
def both_store(x, y, world, SCOPE: tl.constexpr, SEM: tl.constexpr):
    """Each rank sets its own word, then looks at the other's: store buffering, by atomics only."""
    me = tlx.world_rank(world)
    tl.atomic_xchg(x, 1, sem=SEM, scope=SCOPE)
    tl.store(y, tl.atomic_add(tlx.peer_pointer(x, 1 - me, world), 0, sem=SEM, scope=SCOPE))


@pytest.mark.parametrize("sem", ["relaxed", "acq_rel"])
@pytest.mark.parametrize("scope", ["gpu", "sys"])
def test_store_buffering(scope, sem):
    """Atomics of two GPUs are atomics to each other at system scope only; no order is asked for."""
    world = mimw.World(2)
    x, y = world.symmetric(1, "int32", "x"), world.each(lambda rank: np.zeros(1, np.int32), "y")
    launch = both_store, 1, (x, y, world, scope, sem), {}
    assert right(launch, "random") == (scope == "sys")
    if scope == "gpu":
        assert "no atomics" in found(launch, "ScopeTooNarrow").message


@mimw.jit
def independent_reads(data, flag, out, world, SCOPE: tl.constexpr, HOW: tl.constexpr):
    """Rank 0 writes data and says so at its own flag; program 0 of rank 1 sees that and passes it on to program 1 of rank 1."""
    me, program = tlx.world_rank(world), tl.program_id(0)
    first = tlx.peer_pointer(flag, 0, world)
    if me == 0:
        if program == 0:
            tl.store(data, 3)
            tlx.signal(flag, 1)
    else:
        if program == 0:
            tlx.wait_signal(first, 1)
            tlx.signal(flag + 1, 1, scope=SCOPE)
        else:
            if HOW == "both":
                tlx.wait_signal(first, 1, sem="relaxed")
            tlx.wait_signal(flag + 1, 1, scope=SCOPE, sem="relaxed" if HOW == "broken" else "acquire")
            tl.store(out, tl.load(tlx.peer_pointer(data, 0, world)))


@pytest.mark.parametrize("how, scope, ok", [("chain", "gpu", True), ("chain", "sys", True), ("both", "gpu", True),
                                            ("broken", "sys", False)])
def test_a_chain_of_scopes(how, scope, ok):
    """Causality goes through: a link between GPUs of system scope, then one inside a GPU of that GPU's scope."""
    world = mimw.World(2)
    data, flag = world.symmetric(1, "int32", "data"), world.symmetric(2, "int32", "flag")
    out = world.each(lambda rank: np.zeros(1, np.int32), "out")
    assert right((independent_reads, 2, (data, flag, out, world, scope, how), {}), "random") == ok


@mimw.jit
def put_by_tma(x, flag, y, world, N: tl.constexpr, WAITS: tl.constexpr, SEM: tl.constexpr):
    """Rank 0 copies a tile into rank 1's memory by TMA, through a descriptor of the peer's array, then signals."""
    at = tl.arange(0, N)
    if tlx.world_rank(world) == 0:
        there = tl.make_tensor_descriptor(tlx.peer_pointer(x, 1, world), [N, N], [N, 1], [N, N])
        tile = tlx.local_alloc((N, N), tl.float32, 1)
        tlx.local_store(tile[0], tl.full((N, N), 2.0, tl.float32))
        tlx.fence("async_shared")
        tlx.async_descriptor_store(there, tile[0], [0, 0])
        if WAITS == "before":
            tlx.async_descriptor_store_wait(0)
        tlx.signal(tlx.peer_pointer(flag, 1, world), 1, sem=SEM)
        if WAITS == "after":
            tlx.async_descriptor_store_wait(0)
    else:
        tlx.wait_signal(flag, 1)
        rows = at[:, None] * N + at[None, :]
        tl.store(y + rows, tl.load(x + rows))


def put(waits="before", sem="release"):
    world = mimw.World(2)
    x, flag = world.symmetric((16, 16), "float32", "x"), world.symmetric(1, "int32", "flag")
    y = world.each(lambda rank: np.zeros((16, 16), np.float32), "y")
    return put_by_tma, 1, (x, flag, y, world, 16, waits, sem), {}


@states("tma_store_wait", "signal_wait")
def a_put_and_a_signal():
    return put()


def test_a_put_has_to_have_ended_before_its_signal():
    assert right(put(), "random")
    finding = found(put("after"), "SignalOvertakesData")
    assert "async_descriptor_store_wait(0)" in finding.hint and "rank 0" in finding.message
    assert found(put(sem="relaxed"), "MissingSystemFence")


def test_a_put_arrives():
    launch = put()
    mimw.simulate(launch[0], launch[1], *launch[2], seed=3, races=True)
    assert (launch[2][2][1] == 2).all() and (launch[2][2][0] == 0).all()


@mimw.jit
def rounds(x, flag, back, y, world, ROUNDS: tl.constexpr, COMPARE: tl.constexpr, RESET: tl.constexpr, ANSWERS: tl.constexpr):
    """Rank 0 puts a number a round; rank 1 takes each, and answers so that rank 0 may put the next."""
    if tlx.world_rank(world) == 0:
        for r in range(ROUNDS):
            if ANSWERS:
                tlx.wait_signal(back, r)
            tl.store(tlx.peer_pointer(x, 1, world), r)
            tlx.signal(tlx.peer_pointer(flag, 1, world), 1)
    else:
        for r in range(ROUNDS):
            tlx.wait_signal(flag, 1 if RESET else r + 1, compare=COMPARE)
            if RESET:
                tl.atomic_xchg(flag, 0, sem="relaxed", scope="sys")
            tl.store(y + r, tl.load(x))
            tlx.signal(tlx.peer_pointer(back, 0, world), 1)


def played(compare="ge", reset=False, answers=True, count=3):
    world = mimw.World(2)
    x, flag, back = (world.symmetric(1, "int32", name) for name in ("x", "flag", "back"))
    y = world.each(lambda rank: np.zeros(count, np.int32), "y")
    return rounds, 1, (x, flag, back, y, world, count, compare, reset, answers), {}


@pytest.mark.parametrize("compare, reset", [("ge", False), ("eq", False), ("eq", True), ("ge", True)])
def test_rounds_with_answers_are_right(compare, reset):
    assert right(played(compare, reset), "random")


def test_a_buffer_that_is_overwritten_while_the_peer_reads():
    finding = found(played(answers=False), "SlotReusedEarly")
    assert "rank 0" in finding.message and "rank 1" in finding.message and finding.hint


@mimw.jit
def only_signals(flag, world, COMPARE: tl.constexpr, ANSWERS: tl.constexpr):
    if tlx.world_rank(world) == 0:
        tlx.signal(tlx.peer_pointer(flag, 1, world), 1)
        if ANSWERS:
            tlx.wait_signal(flag, 1)
        tlx.signal(tlx.peer_pointer(flag, 1, world), 1)
    else:
        tlx.wait_signal(flag, 1, compare=COMPARE)
        tlx.signal(tlx.peer_pointer(flag, 0, world), 1)
        tlx.wait_signal(flag, 2, compare=COMPARE)


@pytest.mark.parametrize("compare, answers", [("ge", True), ("ge", False), ("eq", True), ("eq", False)])
def test_a_signal_that_is_used_a_round_too_early(compare, answers):
    """Counting up takes nothing from who waits for at least so much; who waits for just this much has to have looked."""
    world = mimw.World(2)
    launch = only_signals, 1, (world.symmetric(1, "int32", "flag"), world, compare, answers), {}
    ok = compare == "ge" or answers
    assert right(launch, "random") == ok
    if not ok:
        finding = found(launch, "SignalReusedEarly")
        assert "'flag'[0] of rank 1" in finding.message and "count up" in finding.hint


@mimw.jit
def meeting(x, y, world, HOW: tl.constexpr, MESH: tl.constexpr):
    mesh = tle.bind_mesh(MESH, world)
    me = tle.shard_id(mesh, "device")
    tl.store(x, me + 1)
    if HOW == "all":
        tle.distributed_barrier(mesh)
    if HOW == "two tasks":
        with tlx.async_tasks():
            with tlx.async_task("default"):
                tle.distributed_barrier(mesh)
            with tlx.async_task(num_warps=1):
                tle.distributed_barrier(mesh)
    if HOW == "one":
        if me == 0:
            tle.distributed_barrier(mesh)
    else:
        tl.store(y, tl.load(tle.remote(x, 1 - me, scope=mesh)))


def met(how="all"):
    world = mimw.World(2)
    x, y = world.symmetric(1, "int32", "x"), world.each(lambda rank: np.zeros(1, np.int32), "y")
    return meeting, 1, (x, y, world, how, MESH), {}


@states("world_barrier")
def ranks_that_meet():
    return met()


def test_a_barrier_of_ranks():
    assert right(met(), "random")
    assert found(met("none"), "DataRace").hint.count("distributed_barrier")


def test_a_barrier_that_one_rank_never_reaches():
    finding = found(met("one"), "RankMissing")
    assert "rank 1, whose program has left" in finding.message and "rank 1 does not" in finding.hint


def test_two_tasks_of_a_program_at_one_barrier():
    """Each would take the other's signals for its own."""
    finding = found(met("two tasks"), "BarrierMisuse")
    assert "one signal pad for each peer" in finding.message and "rank" in finding.message and len(lines_of(finding)) == 2


def test_a_signal_that_nobody_sends():
    world = mimw.World(2)
    launch = only_signals, 1, (world.symmetric(1, "int32", "flag"), world, "gt", True), {}
    finding = found(launch, "SignalNeverSent")
    assert "'flag'[0] of rank 1 to be > 1: it is 1" in finding.message and "atomic_rmw" in finding.message


@mimw.jit
def fetched(x, y, flag, world, HOW: tl.constexpr, N: tl.constexpr):
    """Rank 0 stores a tile into rank 1's memory; rank 1 copies the tile by TMA."""
    rows = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    if tlx.world_rank(world) == 0:
        tl.store(tlx.peer_pointer(x, 1, world) + rows, rows * 1.0)
        if HOW == "fence":
            tlx.fence("sys")
        if HOW != "barrier":
            tlx.signal(tlx.peer_pointer(flag, 1, world), 1)
    elif HOW != "barrier":
        tlx.wait_signal(flag, 1)
    if HOW == "barrier":
        tlx.world_barrier(world)
    if tlx.world_rank(world) == 1:
        here = tl.make_tensor_descriptor(x, [N, N], [N, 1], [N, N])
        tile, full = tlx.local_alloc((N, N), tl.float32, 1), tlx.alloc_barriers(1)
        tlx.barrier_expect_bytes(full[0], N * N * 4)
        tlx.async_descriptor_load(here, tile[0], [0, 0], full[0])
        tlx.barrier_wait(full[0], 0)
        tl.store(y + rows, tlx.local_load(tile[0]))


@pytest.mark.parametrize("how", ["signal", "fence", "barrier"])
def test_what_a_peer_stored_and_tma_reads_needs_a_fence_between_proxies(how):
    """A barrier of ranks has the fence (rule 21)."""
    world = mimw.World(2)
    x, flag = world.symmetric((16, 16), "float32", "x"), world.symmetric(1, "int32", "flag")
    y = world.each(lambda rank: np.zeros((16, 16), np.float32), "y")
    launch = fetched, 1, (x, y, flag, world, how, 16), {}
    assert right(launch, "random") == (how != "signal")
    if how == "signal":
        assert found(launch, "MissingFence")


@mimw.jit
def independent(x, seen, world, SCOPE: tl.constexpr, SEM: tl.constexpr):
    """Program 0 of each rank writes its own word; program 1 of each reads both words, its own rank's first."""
    me, program = tlx.world_rank(world), tl.program_id(0)
    if program == 0:
        tl.atomic_store(x, 1, sem="release" if SEM == "acquire" else "relaxed", scope=SCOPE)
    else:
        tl.store(seen, tl.atomic_load(x, sem=SEM, scope=SCOPE))
        tl.store(seen + 1, tl.atomic_load(tlx.peer_pointer(x, 1 - me, world), sem=SEM, scope=SCOPE))
    tlx.clock64()


@pytest.mark.parametrize("sem", ["relaxed", "acquire"])
@pytest.mark.parametrize("scope", ["gpu", "sys"])
def test_independent_reads_of_independent_writes(scope, sem):
    """Atomics of system scope do not race. Whether two readers may see two writes in different orders is asked of values, which
    this model does not weaken (docs/DISTRIBUTED.md)."""
    world = mimw.World(2)
    x, seen = world.symmetric(1, "int32", "x"), world.each(lambda rank: np.zeros(2, np.int32), "seen")
    launch = independent, 2, (x, seen, world, scope, sem), {}
    assert right(launch, "random") == (scope == "sys")
    if scope == "gpu":
        assert found(launch, "ScopeTooNarrow")
