"""mbarriers: phases, arrivals, bytes, predicates and arrays."""

import numpy as np
import pytest

from mimw.errors import BarrierMisuse, Deadlock, InvalidProgram, OutOfBounds

from .programs import I1, I32, Sketch, line_of


def with_barrier(body, count=1, arrivals=1):
    k = Sketch()
    body(k, k.barriers(count, arrivals, "bar"))
    return k


@pytest.mark.parametrize("parity, passes", [(1, True), (0, False)])
def test_a_fresh_barrier_has_completed_phase_one(parity, passes):
    k = with_barrier(lambda k, bars: k.op("barrier_wait", k.bar(bars, 0), k.const(parity), None))
    if passes:
        assert k.run().counts["barrier_wait"] == 1
    else:
        with pytest.raises(Deadlock, match=r"parity 0 of 'bar'\[0\]: it is in phase 0 \(parity 0\) with 0 of 1 arr"):
            k.run()


@pytest.mark.parametrize("arrivals, parity, passes", [
    (1, 0, True), (1, 1, False), (2, 0, False), (2, 1, True), (3, 0, True)])
def test_a_wait_names_the_phase_by_its_parity(arrivals, parity, passes):
    """After n phases the wait for parity p passes unless the current phase has that parity."""
    def body(k, bars):
        for _ in range(arrivals):
            k.op("barrier_arrive", k.bar(bars, 0), 1, None)
        k.op("barrier_wait", k.bar(bars, 0), k.const(parity), None)

    if passes:
        with_barrier(body).run()
    else:
        with pytest.raises(Deadlock):
            with_barrier(body).run()


@pytest.mark.parametrize("counts, completes", [((1, 1), True), ((2, ), True), ((1, ), False)])
def test_a_phase_takes_as_many_arrivals_as_it_was_made_for(counts, completes):
    def body(k, bars):
        for count in counts:
            k.op("barrier_arrive", k.bar(bars, 0), count, None)
        k.op("barrier_wait", k.bar(bars, 0), k.const(0), None)

    if completes:
        with_barrier(body, arrivals=2).run()
    else:
        with pytest.raises(Deadlock, match="1 of 2 arrivals"):
            with_barrier(body, arrivals=2).run()


def test_more_arrivals_than_a_phase_takes():
    k = with_barrier(lambda k, bars: k.op("barrier_arrive", k.bar(bars, 0), 2, None))
    with pytest.raises(BarrierMisuse, match=r"2 more arrivals on 'bar'\[0\]; .* with 0 of 1") as caught:
        k.run()
    assert 'k.op("barrier_arrive"' in line_of(caught.value)


def test_an_arrival_while_bytes_are_pending_is_one_too_many():
    def body(k, bars):
        k.op("barrier_expect", k.bar(bars, 0), 128, None)
        k.op("barrier_arrive", k.bar(bars, 0), 1, None)

    with pytest.raises(BarrierMisuse, match="1 more arrival on .* with 1 of 1 arrivals and 128 bytes pending"):
        with_barrier(body).run()


def test_a_false_predicate_skips():
    def body(k, bars):
        no, yes = k.const(0, I1), k.const(1, I1)
        k.op("barrier_wait", k.bar(bars, 0), k.const(0), no)
        k.op("barrier_arrive", k.bar(bars, 0), 1, no)
        k.op("barrier_expect", k.bar(bars, 0), 64, no)
        k.op("barrier_arrive", k.bar(bars, 0), 1, yes)
        k.op("barrier_wait", k.bar(bars, 0), k.const(0), yes)

    with_barrier(body).run()


@pytest.mark.parametrize("index", [-1, 2])
def test_an_index_outside_the_array(index):
    with pytest.raises(OutOfBounds, match=rf"index {index} of the barriers of 'bar'\[0\], of which there are 2"):
        with_barrier(lambda k, bars: k.bar(bars, k.const(index)), count=2).run()


def test_a_phase_that_is_no_parity():
    with pytest.raises(BarrierMisuse, match="waits for phase 2"):
        with_barrier(lambda k, bars: k.op("barrier_wait", k.bar(bars, 0), k.const(2), None)).run()


def test_an_array_of_one_may_stand_for_its_barrier():
    def body(k, bars):
        k.op("barrier_arrive", bars, 1, None)
        k.op("barrier_wait", bars, k.const(0), None)

    with_barrier(body).run()
    with pytest.raises(InvalidProgram, match="'barrier' is a value of type barrier<x 2>, and should be Barrier"):
        with_barrier(body, count=2).run()


def exchange(first_waits: bool, second_waits: bool):
    """Two tasks that each wait for the other before they arrive, or not."""
    k = Sketch()
    ping, pong = k.barriers(1, 1, "ping"), k.barriers(1, 1, "pong")

    def task(mine, other, waits_first):
        def body():
            if waits_first:
                k.op("barrier_wait", k.bar(other, 0), k.const(0), None)
            k.op("barrier_arrive", k.bar(mine, 0), 1, None)
            if not waits_first:
                k.op("barrier_wait", k.bar(other, 0), k.const(0), None)
        return body

    k.tasks(left=task(ping, pong, first_waits), right=task(pong, ping, second_waits))
    return k


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("second", [False, True])
def test_it_hangs_only_if_both_wait_first(first, second, seed):
    if not (first and second):
        exchange(first, second).run(seed=seed)
        return
    with pytest.raises(Deadlock) as caught:
        exchange(first, second).run(seed=seed)
    text = str(caught.value)
    assert "task 'left' of CTA (0, 0, 0) waits" in text and "task 'right' of CTA (0, 0, 0) waits" in text
    assert "could have come from barrier_arrive" in text and "in task 'right', which is blocked at" in text


def test_a_deadlock_of_many_programs_is_told_once():
    k = with_barrier(lambda k, bars: k.op("barrier_wait", k.bar(bars, 0), k.const(0), None))
    with pytest.raises(Deadlock, match="and 6 more CTAs in the same way") as caught:
        k.run(grid=(10, ))
    assert str(caught.value).count(" waits at ") == 4 and len(caught.value.sites) == 1


def test_a_barrier_carried_by_a_loop_is_still_known():
    """The report finds the arrive, though it works on a value that the loop carries."""
    k = Sketch()
    bars = k.barriers(1, 2, "bar")

    def body(i, carried):
        k.op("barrier_arrive", carried, 1, None)
        return (carried, )

    k.loop(1, body, [k.bar(bars, 0)])
    k.op("barrier_wait", k.bar(bars, 0), k.const(0), None)
    with pytest.raises(Deadlock, match="1 of 2 arrivals(.|\n)*come from barrier_arrive .* the kernel's body"):
        k.run()


def test_a_task_that_has_ended_is_said_to_have():
    k = Sketch()
    bars = k.barriers(1, 2, "bar")
    k.tasks(waiter=lambda: k.op("barrier_wait", k.bar(bars, 0), k.const(0), None),
            helper=lambda: k.op("barrier_arrive", k.bar(bars, 0), 1, None))
    with pytest.raises(Deadlock, match="in task 'helper', which has finished"):
        k.run()


def test_loops_and_conditions_around_waits():
    """Three phases in a loop; the parity is the index & 1 and every other wait is skipped."""
    k = Sketch()
    out = k.pointer(I32, "out")
    bars = k.barriers(1, 1, "bar")

    def body(i, total):
        k.op("barrier_arrive", k.bar(bars, 0), 1, None)
        odd = k.op("and", i, k.const(1))
        k.when(k.op("icmpNE", odd, k.const(0)), lambda: k.op("barrier_wait", k.bar(bars, 0), odd, None))
        return (k.op("add", total, i), )

    (total, ) = k.loop(5, body, [k.const(0)])
    k.store(out, total)
    result = np.zeros(1, np.int32)
    assert k.run(result).counts["barrier_wait"] == 2
    assert result.tolist() == [10]


def test_only_ops_on_that_barrier_are_named():
    """The arrive on the other barrier of the array, whose index is a constant, could not have helped."""
    def body(k, bars):
        k.op("barrier_arrive", k.bar(bars, k.const(1)), 1, None)
        k.op("barrier_wait", k.bar(bars, k.const(0)), k.const(0), None)

    with pytest.raises(Deadlock, match="nothing in the kernel arrives on that barrier"):
        with_barrier(body, count=2).run()
