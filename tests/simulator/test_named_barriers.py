"""Named barriers: rounds of so many threads, and what goes wrong with the counts."""

import numpy as np
import pytest

import mimw
import mimw.tlx as tlx
from mimw.errors import BarrierMisuse, Deadlock

from .programs import FP32, I1, Sketch, Tensor


def hand_over(first=256, second=256, wait=True, rounds=1, seed=0):
    """One task stores, arrives; the other waits, loads. The second round gives the buffer back."""
    k = Sketch()
    y = k.pointer(name="y")
    tile = k.op("buffer_index", k.buffers(FP32, (64, ), 1), 0)

    def writer():
        for value in range(rounds):
            k.op("local_store", tile, k.op("constant", float(value + 1), Tensor(FP32, (64, ))))
            k.op("named_barrier_arrive", 9, first)
            k.op("named_barrier_wait", 10, 256)

    def reader():
        for _ in range(rounds):
            if wait:
                k.op("named_barrier_wait", 9, second)
            k.store(y, k.op("local_load", tile, None))
            k.op("named_barrier_arrive", 10, 256)

    k.tasks(writer=writer, reader=reader)
    out = np.zeros(64, np.float32)
    k.run(out, seed=seed)
    return out


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("rounds", [1, 3])
def test_rounds(seed, rounds):
    assert (hand_over(rounds=rounds, seed=seed) == rounds).all()


def test_different_counts_in_one_round():
    with pytest.raises(BarrierMisuse, match="opens for .* threads here and for .* in one round"):
        hand_over(second=128 + 256)


def alone(warps, threads, waits=1, others=(), seed=0):
    """A task of `warps` warps waits; `others` are (warps, word) of tasks that come once each. The rounds that were begun."""
    k = Sketch()

    def waiter():
        for _ in range(waits):
            k.op("named_barrier_wait", 14, threads)

    def other(word):
        return lambda: k.op(f"named_barrier_{word}", 14, threads)

    tasks = {f"other{index}": other(word) for index, (_, word) in enumerate(others)}
    k.tasks(waiter=waiter, **tasks, warps=(warps, *(size for size, _ in others)))
    return k.run(seed=seed)


@pytest.mark.parametrize("warps, threads", [(4, 32), (4, 64), (4, 128), (8, 64), (1, 32)])
@pytest.mark.parametrize("waits", [1, 3])
def test_every_warp_counts(warps, threads, waits):
    """A task's own warps fill one round after the other."""
    alone(warps, threads, waits)


def test_the_last_warp_waits_for_others():
    with pytest.raises(Deadlock, match="named barrier 14: 32 of 96 threads have come"):
        alone(4, 96)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("others", [[(2, "arrive")], [(1, "arrive"), (1, "arrive")], [(2, "wait")], [(1, "wait"), (1, "arrive")]])
def test_others_fill_the_rest_of_a_round(seed, others):
    alone(4, 96, others=others, seed=seed)


@pytest.mark.parametrize("seed", range(4))
def test_arrivals_of_one_task_fill_rounds_too(seed):
    """Three warps that arrive and one that waits are two rounds of 64 threads. Four and three waits are not three rounds of 96."""
    alone(1, 64, others=[(3, "arrive")], seed=seed)
    with pytest.raises(Deadlock, match="of 96 threads have come"):
        alone(1, 96, others=[(4, "arrive")], waits=3, seed=seed)


@mimw.jit
def whoever_comes_first(x):
    """Two waits of one warp and one arrival of four make two rounds of three, unless three of the four are the first."""
    with tlx.async_tasks():
        with tlx.async_task(num_warps=1):
            tlx.named_barrier_wait(14, 96)
            tlx.named_barrier_wait(14, 96)
        with tlx.async_task("default"):
            tlx.named_barrier_arrive(14, 96)


def test_a_systematic_search_cuts_a_task_in_every_way():
    report = mimw.check(whoever_comes_first, (1, ), np.zeros(1), search="systematic")
    assert report.complete and [finding.kind for finding in report.findings] == ["Deadlock"]
    assert report.runs > 1


def test_too_few_threads_is_a_deadlock():
    with pytest.raises(Deadlock, match="waits at .* for named barrier 9: 256 of 384 threads have come"):
        hand_over(first=384, second=384)


def per_thread_barrier(arrive_count: int, arrivals: int = 1, warps: int = 4):
    k = Sketch()
    bar = k.bar(k.op("alloc_barriers", 1, arrive_count, per_thread=True), 0)

    def waiter():
        k.op("barrier_wait", bar, k.const(0), None)

    def arriver():
        for _ in range(arrivals):
            k.op("barrier_arrive", bar, 1, k.const(1, I1))

    k.tasks(waiter=waiter, arriver=arriver)
    k.run()


@pytest.mark.parametrize("count, arrivals", [(128, 1), (256, 2)])
def test_every_thread_arrives(count, arrivals):
    per_thread_barrier(count, arrivals)


def test_one_arrival_a_thread_too_few_or_too_many():
    with pytest.raises(Deadlock, match="128 of 256 arrivals"):
        per_thread_barrier(256)
    with pytest.raises(BarrierMisuse, match="128 more arrivals"):
        per_thread_barrier(32)
