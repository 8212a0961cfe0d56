"""Arrivals that cannot come are refused; whatever might come is not."""

import pytest

from mimw.compiler.passes import check_arrivals
from mimw.errors import ArriveCountMismatch
from mimw.target import target
from tests.analysis.building import I1, Kernel, ring_copy

SM90 = target("sm_90a")


def refused(kernel: Kernel) -> str:
    with pytest.raises(ArriveCountMismatch) as caught:
        check_arrivals(kernel.program(), SM90)
    return str(caught.value)


def accepted(kernel: Kernel) -> bool:
    return check_arrivals(kernel.program(), SM90) is None


def one_barrier(arrive_count: int = 1, phase: int = 0):
    """A kernel with one barrier that the default task waits for."""
    k = Kernel()
    bar = k.at(2).barriers("ready", 1, arrive_count)
    k.at(5).wait(k.one(bar, 0), phase)
    return k, bar


def test_nothing_arrives():
    k, _ = one_barrier()
    assert refused(k).splitlines()[:2] == [
        "TooFewArrivals at kernel.py:2: 'ready' waits for 1 arrival, nothing ever arrives there. "
        "The wait of task 'kernel' at kernel.py:5 never returns.",
        "Mend: Add the barrier_arrive or barrier_expect_bytes that completes it.",
    ]


def test_a_fresh_barrier_has_completed_phase_one():
    k, _ = one_barrier(phase=1)
    assert accepted(k)


@pytest.mark.parametrize("arrive_count, arrivals, right", [(1, 1, True), (2, 1, False), (2, 2, True), (3, 2, False), (1, 2, True)])
def test_arrivals_in_a_straight_line(arrive_count, arrivals, right):
    k, bar = one_barrier(arrive_count)
    with k.task("other", warps=4):
        for line in range(arrivals):
            k.at(7 + line).arrive(k.one(bar, 0))
    if right:
        assert accepted(k)
    else:
        assert f"waits for {arrive_count} arrivals, {arrivals} can come (task 'other': one arrive at kernel.py:7" in refused(k)


def test_another_barrier_of_the_array_does_not_count():
    k = Kernel()
    bars = k.barriers("pair", 2)
    k.wait(k.one(bars, 1), 0)
    k.arrive(k.one(bars, 0))
    assert "nothing ever arrives there" in refused(k)


def test_an_arrival_at_an_unknown_barrier_counts():
    k = Kernel()
    bars, which = k.barriers("pair", 2), k.param("which")
    k.arrive(k.one(bars, which))
    k.wait(k.one(bars, 1), 0)
    assert accepted(k)


def test_more_at_once_than_a_phase_takes():
    k, bar = one_barrier()
    k.at(9).arrive(k.one(bar, 0), 2)
    assert refused(k).splitlines()[:2] == [
        "TooManyArrivals at kernel.py:9: 'ready' takes 1 arrival a phase, and task 'kernel' arrives 2 times at once. "
        "The surplus arrivals corrupt the barrier.",
        "Mend: allocate with arrive_count=2, or arrive once.",
    ]


def test_a_ring_with_its_counts_right():
    assert accepted(ring_copy())


def test_a_ring_that_waits_for_an_arrival_too_many():
    assert refused(ring_copy(arrive_count=2)).splitlines()[:2] == [
        "TooFewArrivals at kernel.py:3: 'full' waits for 2 arrivals, 1 can come (task 'load': one expect at kernel.py:13). "
        "The wait of task 'mma' at kernel.py:22 never returns.",
        "Mend: Allocate with arrive_count=1, or add the other arrive.",
    ]


def ring_with(rounds=lambda k, n: n, more_rounds=None, flag=False, count=2):
    """A wait in a loop on one barrier, and one arrive in another task's loop."""
    k = Kernel()
    n = k.param("n")
    bar = k.barriers("ready", 1, count)
    with k.task("wait"):
        with k.loop(rounds(k, n), [k.number(0)]) as (i, (carried, )):
            if flag:
                k.wait(k.one(bar, 0), carried)
                k.carry(k.op("xor", carried, k.number(1)))
            else:
                k.wait(k.one(bar, 0), k.op("and", i, k.number(1)))
                k.carry(carried)
    with k.task("arrive"):
        with k.loop((more_rounds or rounds)(k, n)):
            k.arrive(k.one(bar, 0))
    return k


@pytest.mark.parametrize("flag", [False, True])
def test_one_barrier_with_a_phase_of_its_own(flag):
    assert "1 can come" in refused(ring_with(flag=flag))
    assert accepted(ring_with(flag=flag, count=1))


def test_bounds_that_both_tasks_compute_are_compared():
    def tiles(k, n):
        return k.op("sdiv", k.op("add", n, k.number(63)), k.number(64))

    assert "1 can come" in refused(ring_with(rounds=tiles))
    assert accepted(ring_with(rounds=tiles, more_rounds=lambda k, n: k.op("mul", tiles(k, n), k.number(2))))


def test_a_wait_that_comes_twice_a_phase_is_left_alone():
    k = Kernel()
    n = k.param("n")
    bar = k.barriers("ready", 1, 2)
    with k.task("wait"):
        with k.loop(n) as (i, _):
            k.wait(k.one(bar, 0), k.op("and", k.op("sdiv", i, k.number(2)), k.number(1)))
    with k.task("arrive"):
        with k.loop(n):
            k.arrive(k.one(bar, 0))
    assert accepted(k)


def test_a_wait_that_skips_rounds_is_left_alone():
    k = Kernel()
    n, skip = k.param("n"), k.param("skip")
    bar = k.barriers("ready", 1)
    with k.loop(n) as (i, _):
        with k.when(k.op("icmpSGT", i, skip)):
            k.wait(k.one(bar, 0), k.op("and", i, k.number(1)))
    assert accepted(k)


def test_replicas_arrive_once_each():
    def shared_stage(count):
        k = Kernel()
        n = k.param("n")
        bar = k.at(3).barriers("free", 1, count)
        with k.task("wait"):
            with k.loop(n) as (i, _):
                k.at(5).wait(k.one(bar, 0), k.op("and", i, k.number(1)))
        for replica in range(2):
            with k.task("mma", replica=replica, replicas=2):
                with k.loop(n):
                    k.at(9).arrive(k.one(bar, 0))
        return k

    assert accepted(shared_stage(2))
    assert "2 can come (task 'mma[0]': one arrive at kernel.py:9, task 'mma[1]': one arrive at kernel.py:9)" in refused(
        shared_stage(3))


def two_rings(count):
    """`full[slot + replica * 4]`: each half of one array is a ring of its own."""
    k = Kernel()
    n = k.param("n")
    full = k.barriers("full", 8, count)

    def slot(it, half):
        return k.op("add", k.op("srem", it, k.number(4)), k.number(4 * half))

    with k.task("load"):
        with k.loop(n, [k.number(0)]) as (_, (it, )):
            for half in range(2):
                k.arrive(k.one(full, slot(it, half)))
            k.carry(k.op("add", it, k.number(1)))
    with k.task("mma"):
        with k.loop(n, [k.number(0)]) as (_, (it, )):
            phase = k.op("and", k.op("sdiv", it, k.number(4)), k.number(1))
            k.wait(k.one(full, slot(it, 1)), phase)
            k.carry(k.op("add", it, k.number(1)))
    return k


def test_halves_of_an_array_are_rings_of_their_own():
    assert accepted(two_rings(1))
    assert "1 can come" in refused(two_rings(2))


def overlapping_rings(distance):
    k = Kernel()
    n = k.param("n")
    full = k.barriers("full", 8, 2)
    with k.task("load"):
        with k.loop(n, [k.number(0)]) as (_, (it, )):
            for shift in (0, distance):
                k.arrive(k.one(full, k.op("add", k.op("srem", it, k.number(4)), k.number(shift))))
            k.carry(k.op("add", it, k.number(1)))
    with k.task("mma"):
        with k.loop(n, [k.number(0)]) as (_, (it, )):
            k.wait(k.one(full, k.op("srem", it, k.number(4))), k.op("and", k.op("sdiv", it, k.number(4)), k.number(1)))
            k.carry(k.op("add", it, k.number(1)))
    return k


def test_rings_that_overlap_are_left_alone():
    assert accepted(overlapping_rings(1))
    assert "1 can come" in refused(overlapping_rings(4))


def persistent(count):
    """The counter goes on over the tiles of an outer loop."""
    k = Kernel()
    tiles, n = k.param("tiles"), k.param("n")
    full = k.barriers("full", 4, count)

    def rounds(body):
        with k.loop(tiles, [k.number(0)]) as (_, (outer, )):
            with k.loop(n, [outer]) as (_, (it, )):
                body(k.op("srem", it, k.number(4)), it)
                k.carry(k.op("add", it, k.number(1)))
            k.carry(*k.results)

    with k.task("load"):
        rounds(lambda slot, it: k.arrive(k.one(full, slot)))
    with k.task("mma"):
        rounds(lambda slot, it: k.wait(k.one(full, slot), k.op("and", k.op("sdiv", it, k.number(4)), k.number(1))))
    return k


def test_a_persistent_ring():
    assert accepted(persistent(1))
    assert "1 can come" in refused(persistent(2))


@pytest.mark.parametrize("known, right", [(None, True), (1, True), (0, False)])
def test_an_arrival_with_a_predicate_may_come(known, right):
    k = Kernel()
    bar, flag = k.barriers("ready", 1), k.param("flag", I1)
    k.wait(k.one(bar, 0), 0)
    k.arrive(k.one(bar, 0), 1, flag if known is None else k.number(known, I1))
    if right:
        assert accepted(k)
    else:
        assert "nothing ever arrives there" in refused(k)


def test_a_barrier_that_goes_out_of_sight_is_left_alone():
    k = Kernel()
    bar = k.barriers("ready", 1)
    one = k.one(bar, 0)
    with k.loop(4, [one]) as (_, (carried, )):
        k.carry(carried)
    k.wait(one, 0)
    assert accepted(k)


def filler(count=1, readers=0, rounds=None, stages=2, flag=False):
    """A producer that waits with the phase of an empty ring, and tasks that give the slots back."""
    k = Kernel()
    n = k.param("n")
    free = k.at(2).barriers("free", stages, count)
    end = k.number(rounds) if rounds else n

    def slot_and_phase(it):
        ring = k.number(stages)
        return k.op("srem", it, ring), k.op("and", k.op("sdiv", it, ring), k.number(1))

    with k.task("fill", warps=1):
        with k.loop(end, [k.number(0), k.number(1)]) as (_, (it, carried)):
            slot, phase = slot_and_phase(it)
            flipped = k.op("xor", phase, k.number(1))
            k.at(5).wait(k.one(free, 0) if flag else k.one(free, slot), carried if flag else flipped)
            k.carry(k.op("add", it, k.number(1)), k.op("sub", k.number(1), carried))
    for reader in range(readers):
        with k.task(f"read{reader}", warps=4):
            with k.loop(end, [k.number(0)]) as (_, (it, )):
                k.at(7 + reader).arrive(k.one(free, 0 if flag else slot_and_phase(it)[0]))
                k.carry(k.op("add", it, k.number(1)))
    return k


@pytest.mark.parametrize("count, readers, rounds, flag, right", [
    (1, 1, None, False, True), (1, 0, None, False, False), (2, 1, None, False, False), (2, 2, None, False, True),
    (1, 0, 2, False, True), (1, 0, 3, False, False), (2, 1, 2, False, True), (1, 1, None, True, True), (1, 0, None, True, False),
    (2, 1, None, True, False)])
def test_slots_that_are_given_back(count, readers, rounds, flag, right):
    """Right iff a round brings as many arrivals as a phase takes, or no slot is used twice."""
    if right:
        assert accepted(filler(count, readers, rounds, flag=flag))
        return
    text = refused(filler(count, readers, rounds, flag=flag))
    assert text.startswith("TooFewArrivals at kernel.py:2: the slots of 'free' are not released: a phase takes ")
    assert ("a round brings one arrive of task 'read0' at kernel.py:7" in text) == bool(readers)
