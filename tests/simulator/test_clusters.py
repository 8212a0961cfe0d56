"""What the simulator says of clusters that are used wrongly; right uses are in tests/words/test_cluster.py."""

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.errors import BarrierMisuse, Deadlock, OutOfBounds, PeerExited, UnwrittenRead
from mimw.simulator.machine.clusters import clusters

PAIR = dict(ctas_per_cga=(2, 1, 1))


@mimw.jit
def store(y_ptr, WAIT: tl.constexpr):
    tile = tlx.local_alloc((32, ), tl.int32, 1)
    at = tl.arange(0, 32)
    tlx.remote_shmem_store(tile[0], at, tlx.cluster_cta_rank() ^ 1)
    if WAIT:
        tlx.cluster_barrier()
    tl.store(y_ptr + at, tlx.local_load(tile[0]))


@mimw.jit
def asynchronous(y_ptr, EXPECT: tl.constexpr, WAIT: tl.constexpr, other):
    tile = tlx.local_alloc((32, ), tl.int32, 1)
    bar = tlx.alloc_barriers(1)
    at = tl.arange(0, 32)
    tlx.barrier_expect_bytes(bar, EXPECT)
    tlx.async_remote_shmem_store(tile[0], at, (tlx.cluster_cta_rank() + other) % 2, bar)
    if WAIT:
        tlx.barrier_wait(bar, 0)
        tl.store(y_ptr + at, tlx.local_load(tile[0]))


@mimw.jit(do_not_specialize=["sender"])
def waits(y_ptr, sender):
    bar = tlx.alloc_barriers(1)
    if tlx.cluster_cta_rank() == sender:
        tlx.barrier_arrive(bar, 1, remote_cta_rank=1)
        tlx.barrier_arrive(bar, 1, remote_cta_rank=0)
    if tlx.cluster_cta_rank() < 2:
        tlx.barrier_wait(bar, 0)


@mimw.jit
def one_sided(y_ptr, RANK: tl.constexpr):
    if tlx.cluster_cta_rank() == RANK:
        tlx.cluster_barrier()


@mimw.jit
def run_time_rank(y_ptr, rank):
    bar = tlx.alloc_barriers(1)
    tlx.barrier_arrive(bar, 1, remote_cta_rank=rank)
    tlx.barrier_wait(bar, 0)


@mimw.jit
def in_a_loop(y_ptr):
    for _ in range(2):
        bar = tlx.alloc_barriers(1)
        tlx.barrier_arrive(bar, 1, remote_cta_rank=tlx.cluster_cta_rank() ^ 1)
        tlx.barrier_wait(bar, 0)


def run(kernel, *args, cluster=(2, 1, 1), grid=(2, ), seed=0):
    y = np.zeros(64, np.int32)
    mimw.simulate(kernel, grid, y, *args, ctas_per_cga=cluster, seed=seed)
    return y


def test_an_unreleased_store_is_not_there_yet():
    assert (run(store, True)[:32] == np.arange(32)).all()
    with pytest.raises(UnwrittenRead, match="before the remote_shmem_store that task 'default' of CTA .* has landed"):
        run(store, False)


def test_asynchronous_bytes():
    assert (run(asynchronous, 128, True, 3)[:32] == np.arange(32)).all()
    with pytest.raises(Deadlock, match="bytes could have come from async_remote_store .* of CTA \\(1, 0, 0\\)"):
        run(asynchronous, 256, True, 3)
    with pytest.raises(BarrierMisuse, match="64 bytes more than it expects"):
        run(asynchronous, 64, True, 3)


def test_a_peer_that_has_left():
    """Nobody waits for the data: both CTAs have gone when they land."""
    with pytest.raises(PeerExited, match=r"lands in CTA \([01], 0, 0\), which has left the kernel"):
        run(asynchronous, 128, False, 3)


@pytest.mark.parametrize("sender, right", [(0, True), (1, True), (3, False)])
def test_arrivals_that_do_not_come(sender, right):
    """Right when one of the two CTAs arrives."""
    if right:
        run(waits, sender)
        return
    with pytest.raises(Deadlock) as caught:
        run(waits, sender)
    assert "CTA (0, 0, 0)" in str(caught.value) and "CTA (1, 0, 0)" in str(caught.value)
    assert "an arrival could have come from remote_arrive" in str(caught.value)


def test_who_is_missing_at_the_cluster_barrier():
    run(one_sided, 0, grid=(1, ), cluster=None)
    with pytest.raises(Deadlock, match=r"4 of 4 warps of CTA \(0, 0, 0\) have not come"):
        @mimw.jit
        def stuck(y_ptr):
            bar = tlx.alloc_barriers(1)
            if tlx.cluster_cta_rank() == 0:
                tlx.barrier_wait(bar, 0)
                tlx.barrier_arrive(bar)
            tlx.cluster_barrier()

        run(stuck)


@pytest.mark.parametrize("rank", [0, 1])
def test_who_has_left_is_not_waited_for(rank):
    for seed in range(3):
        run(one_sided, rank, seed=seed)


def test_ranks_at_run_time():
    with pytest.raises(OutOfBounds, match="rank 2 of a cluster of 2"):
        run(run_time_rank, 2)


def test_a_barrier_that_is_not_made_yet():
    failures = 0
    for seed in range(8):
        try:
            run(in_a_loop, seed=seed)
        except (BarrierMisuse, Deadlock) as error:
            failures += 1
            assert "CTA (" in str(error)
    assert failures, "some interleaving shows that the second round's barrier may not be there"


def test_order_of_clusters():
    assert list(clusters((4, 2, 1), (2, 1, 1))) == [[(0, 0, 0), (1, 0, 0)], [(2, 0, 0), (3, 0, 0)],
                                                    [(0, 1, 0), (1, 1, 0)], [(2, 1, 0), (3, 1, 0)]]
    assert list(clusters((2, 2, 1), (2, 2, 1))) == [[(0, 0, 0), (1, 0, 0), (0, 1, 0), (1, 1, 0)]]


def test_more_clusters_than_fit_at_once():
    y = np.zeros(600 * 2, np.int32)
    from tests.kernels.clusters import ranks
    mimw.simulate(ranks, (600, ), y, ctas_per_cga=(4, 1, 1))
    assert (y.reshape(600, 2) == np.stack([np.arange(600) % 4, np.full(600, 4)], 1)).all()
