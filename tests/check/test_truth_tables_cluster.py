"""Truth tables of the words that reach other CTAs of a cluster."""

import itertools

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx

from .tables import SWITCHES, right, rows, states

PAIR = dict(ctas_per_cga=(2, 1, 1))


@mimw.jit
def exchanging(x_ptr, y_ptr, BEFORE: tl.constexpr, AFTER: tl.constexpr):
    """Each CTA of a pair writes into the other, twice."""
    tile = tlx.local_alloc((16, 32), tl.float16, 1)
    rank = tlx.cluster_cta_rank()
    at = tl.arange(0, 16)[:, None] * 32 + tl.arange(0, 32)[None, :]
    for step in tl.static_range(2):
        tlx.remote_shmem_store(tile[0], tl.load(x_ptr + at), rank ^ 1)
        if BEFORE:
            tlx.cluster_barrier()
        tl.store(y_ptr + tl.program_id(0) * 512 + at, tlx.local_load(tile[0]))
        if AFTER:
            tlx.cluster_barrier()


@states("cluster_barrier", "remote_store")
def exchanged(before=True, after=True):
    return exchanging, 2, (np.ones((16, 32), np.float16), np.zeros((2, 16, 32), np.float16), before, after), PAIR


@rows("before", "after")
def test_cluster_barriers(before, after):
    """Right iff the pair meets between write and read, and again before the next write."""
    assert right(exchanged(before, after)) == (before and after)


@mimw.jit
def telling(x_ptr, y_ptr, ARRIVE: tl.constexpr, TO: tl.constexpr, WAIT: tl.constexpr):
    """CTA 0 writes into CTA 1 and arrives on the barrier of CTA number TO."""
    tile = tlx.local_alloc((128, ), tl.float32, 1)
    full = tlx.alloc_barriers(1)
    at = tl.arange(0, 128)
    if tlx.cluster_cta_rank() == 0:
        tlx.remote_shmem_store(tile[0], tl.load(x_ptr + at), 1)
        if ARRIVE:
            tlx.barrier_arrive(full[0], 1, remote_cta_rank=TO)
    else:
        if WAIT:
            tlx.barrier_wait(full[0], 0)
        tl.store(y_ptr + at, tlx.local_load(tile[0]))


@states("remote_arrive", "remote_store", "barrier_wait")
def told(arrive=True, to=1, wait=True):
    return telling, 2, (np.ones(128, np.float32), np.zeros(128, np.float32), arrive, to, wait), PAIR


@pytest.mark.parametrize("arrive, to, wait", list(itertools.product(SWITCHES, (0, 1), SWITCHES)))
def test_remote_arrivals(arrive, to, wait):
    """Right iff the writer arrives where the reader waits."""
    assert right(told(arrive, to, wait)) == (arrive and to == 1 and wait)


@mimw.jit
def sending(x_ptr, y_ptr, EXPECT: tl.constexpr, WAIT: tl.constexpr, RELEASE: tl.constexpr, WAIT_FREE: tl.constexpr):
    """Each CTA of a pair sends the other two lines, through one slot."""
    line = tlx.local_alloc((128, ), tl.float32, 1)
    full = tlx.alloc_barriers(1)
    free = tlx.alloc_barriers(1)
    rank, at = tlx.cluster_cta_rank(), tl.arange(0, 128)
    for step in tl.static_range(2):
        tlx.barrier_expect_bytes(full[0], EXPECT)
        if WAIT_FREE:
            tlx.barrier_wait(free[0], step ^ 1)
        tlx.async_remote_shmem_store(line[0], tl.load(x_ptr + at), rank ^ 1, full[0])
        if WAIT:
            tlx.barrier_wait(full[0], step)
        tl.store(y_ptr + (2 * tl.program_id(0) + step) * 128 + at, tlx.local_load(line[0]))
        if RELEASE:
            tlx.barrier_arrive(free[0], 1, remote_cta_rank=rank ^ 1)


@states("async_remote_store", "barrier_expect", "barrier_wait", "remote_arrive")
def sent_to_a_peer(expect=512, wait=True, release=True, wait_free=True):
    return sending, 2, (np.ones(128, np.float32), np.zeros(512, np.float32), expect, wait, release, wait_free), PAIR


@pytest.mark.parametrize("expect, wait, release, wait_free", list(itertools.product((256, 512, 528), *[SWITCHES] * 3)))
def test_asynchronous_remote_stores(expect, wait, release, wait_free):
    """Right iff the receiver expects the bytes, waits for them and gives the slot back, for which the sender waits."""
    assert right(sent_to_a_peer(expect, wait, release, wait_free)) == (expect == 512 and wait and release and wait_free)


@mimw.jit
def copying(x_ptr, y_ptr, FENCE: tl.constexpr, EXPECT: tl.constexpr, WAIT: tl.constexpr):
    """A bulk copy from each CTA's buffer into the other's."""
    mine = tlx.local_alloc((128, ), tl.float32, 1)
    theirs = tlx.local_alloc((128, ), tl.float32, 1)
    full = tlx.alloc_barriers(1)
    at = tl.arange(0, 128)
    tlx.barrier_expect_bytes(full[0], EXPECT)
    tlx.local_store(mine[0], tl.load(x_ptr + at))
    if FENCE:
        tlx.fence("async_shared")
    tlx.async_remote_shmem_copy(theirs[0], mine[0], tlx.cluster_cta_rank() ^ 1, full[0])
    if WAIT:
        tlx.barrier_wait(full[0], 0)
    tl.store(y_ptr + tl.program_id(0) * 128 + at, tlx.local_load(theirs[0]))


@states("async_remote_copy", "fence", "barrier_expect", "barrier_wait")
def copied_to_a_peer(fence=True, expect=512, wait=True):
    return copying, 2, (np.ones(128, np.float32), np.zeros(256, np.float32), fence, expect, wait), PAIR


@pytest.mark.parametrize("fence, expect, wait", list(itertools.product(SWITCHES, (256, 512, 528), SWITCHES)))
def test_remote_copies(fence, expect, wait):
    """Right iff the source is fenced, and the receiver expects the bytes and waits for them."""
    assert right(copied_to_a_peer(fence, expect, wait)) == (fence and expect == 512 and wait)


@mimw.jit
def casting(x_desc, y_ptr, EXPECT: tl.constexpr, WAIT: tl.constexpr, OWN: tl.constexpr, OTHER: tl.constexpr,
            WAIT_FREE: tl.constexpr):
    """CTA 0 loads two tiles into one slot of both CTAs, each of which gives the slot back to it."""
    tile = tlx.local_alloc((16, 32), tl.float16, 1)
    full = tlx.alloc_barriers(1)
    free = tlx.alloc_barriers(1, arrive_count=2)
    rank = tlx.cluster_cta_rank()
    at = tl.arange(0, 16)[:, None] * 32 + tl.arange(0, 32)[None, :]
    for step in tl.static_range(2):
        tlx.barrier_expect_bytes(full[0], EXPECT)
        if rank == 0:
            if WAIT_FREE:
                tlx.barrier_wait(free[0], step ^ 1)
            tlx.async_descriptor_load(x_desc, tile[0], [16 * step, 0], full[0], multicast_targets=[0, 1])
        if WAIT:
            tlx.barrier_wait(full[0], step)
        tl.store(y_ptr + (2 * tl.program_id(0) + step) * 512 + at, tlx.local_load(tile[0]))
        if OWN and rank == 0:
            tlx.barrier_arrive(free[0])
        if OTHER and rank == 1:
            tlx.barrier_arrive(free[0], 1, remote_cta_rank=0)


@states("tma_load_multicast", "barrier_expect", "barrier_wait", "barrier_arrive", "remote_arrive")
def cast(expect=1024, wait=True, own=True, other=True, wait_free=True):
    x = mimw.TensorDescriptor.from_tensor(np.ones((32, 32), np.float16), [16, 32])
    return casting, 2, (x, np.zeros(2048, np.float16), expect, wait, own, other, wait_free), PAIR


@pytest.mark.parametrize("expect, wait, own, other, wait_free", list(itertools.product((512, 1024), *[SWITCHES] * 4)))
def test_multicast_loads(expect, wait, own, other, wait_free):
    """Right iff each CTA expects the bytes, waits for them and gives the slot back, for which the loader waits."""
    assert right(cast(expect, wait, own, other, wait_free)) == (expect == 1024 and wait and own and other and wait_free)


@mimw.jit
def made_late(y_ptr, FENCE: tl.constexpr, MEET: tl.constexpr):
    """Barriers made anew in each of two rounds, on which the other CTA arrives."""
    for _ in range(2):
        bar = tlx.alloc_barriers(1)
        if FENCE:
            tlx.fence_mbarrier_init_cluster()
        if MEET:
            tlx.cluster_barrier()
        tlx.barrier_arrive(bar, 1, remote_cta_rank=tlx.cluster_cta_rank() ^ 1)
        tlx.barrier_wait(bar, 0)


@states("fence_mbarrier_init", "cluster_barrier", "remote_arrive", "alloc_barriers")
def late(fence=True, meet=True):
    return made_late, 2, (np.zeros(1, np.float32), fence, meet), PAIR


@rows("fence", "meet")
def test_barriers_that_are_made_late(fence, meet):
    """Right iff their initialisation is made one for the cluster, and the cluster meets after it."""
    assert right(late(fence, meet)) == (fence and meet)
