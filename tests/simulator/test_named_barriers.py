"""Named barriers: rounds of so many threads, and what goes wrong with the counts."""

import numpy as np
import pytest

from mimw.errors import BarrierMisuse, Deadlock

from .programs import FP32, I1, Sketch, Tensor, line_of


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


def test_too_many_threads():
    with pytest.raises(BarrierMisuse, match="128 threads have come to named barrier 9, which opens for 64") as caught:
        hand_over(first=64, second=64)
    assert ", 9, " in line_of(caught.value)


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
