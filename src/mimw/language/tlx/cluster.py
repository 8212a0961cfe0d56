"""Words that reach the other CTAs of the cluster: ranks, cluster-wide barriers, and their shared memory.

Input: the arguments of a kernel's call. Output: ops of `ir/ops/cluster.py`. For example:

    tlx.cluster_cta_rank()                      %rank = cluster_cta_rank : i32
    tlx.remote_shmem_store(tile, x, peer)       remote_store %tile, %flat, %peer, where %flat is a `reshape` of %x

The CTAs of a cluster run at the same time; without a cluster each CTA is one by itself, with rank 0. Buffers and
barriers are named by this CTA's own handles; a rank picks the CTA whose copy of a buffer or barrier is meant. A kernel
that uses another CTA's barriers or buffers waits for the whole cluster at the kernel's start, after all barriers have
been made, and at the kernel's end, so that no CTA is touched before the CTA is ready or after the CTA has left.
"""

from __future__ import annotations

from math import prod

import triton.language.core as tl

from ...errors import KernelError
from ..core import word
from ..refuse import refuse
from .arguments import ONE_GROUP, index_handle, needs_hopper, single_barrier, single_buffer
from .types import buffered_tensor, mbarrier, mbarrier_type, storage_kind

__all__ = [
    "async_remote_shmem_copy", "async_remote_shmem_store", "cluster_barrier", "cluster_cta_rank", "cluster_size_1d",
    "fence_mbarrier_init_cluster", "remote_shmem_store", "remote_view",
]


@word
def cluster_cta_rank(_semantic=None) -> tl.tensor:
    """Linear rank of this CTA in its cluster, x fastest, an i32 scalar; 0 without a cluster, as on each chip that has none.

    lowers to: PTX mov.u32 %cluster_ctarank; the constant 0 without a cluster
    example:   rank = tlx.cluster_cta_rank()
    """
    return tl.tensor(_semantic.builder.record("cluster_cta_rank").results[0], tl.int32)


@word
def cluster_size_1d(_semantic=None) -> tl.tensor:
    """Number of CTAs in the cluster, the product of its extents, an i32 scalar; 1 without a cluster, as on each chip that has none.

    lowers to: a constant: a kernel is compiled for one shape of cluster
    example:   ranks = tlx.cluster_size_1d()
    """
    return tl.tensor(_semantic.builder.record("cluster_size_1d").results[0], tl.int32)


@word
def cluster_barrier(_semantic=None) -> None:
    """Arrive and wait with all threads of all CTAs of the cluster.

    orders:    all that any of these threads did before -> what they do after
    not:       inside tasks: unless every task of the region calls it equally often, and the tasks beside the default one
               have a multiple of 4 warps in all
    lowers to: PTX barrier.cluster.arrive.release, barrier.cluster.wait.acquire. Outside of tasks in a kernel that has some, as a
               region of its own, so that the warps of the others take part.
    example:   tlx.cluster_barrier()
    """
    _semantic.builder.record("cluster_barrier")


@word
def fence_mbarrier_init_cluster(_semantic=None) -> None:
    """Make the initialisation of this CTA's barriers visible to each thread of the cluster that comes after a cluster_barrier.

    errors:    TargetError below sm_90, NotImplementedError on AMD
    not:       a wait. Kernels that use other CTAs' barriers need neither: both are put at their start.
    lowers to: PTX fence.mbarrier_init.release.cluster, by one thread
    example:   tlx.fence_mbarrier_init_cluster()
               tlx.cluster_barrier()
    """
    needs_hopper("fence_mbarrier_init_cluster", _semantic, instead=ONE_GROUP)
    _semantic.builder.record("fence_mbarrier_init")


@word
def remote_view(bar, remote_cta_rank, _semantic=None) -> mbarrier:
    """The same barrier of the CTA with rank `remote_cta_rank`: a handle in the storage `smemCluster`.

    args:      bar             - one mbarrier of this CTA; anything but an mbarrier: AssertionError
               remote_cta_rank - an int or an i32 scalar, 0 to cluster size - 1
    errors:    AssertionError for anything but an mbarrier of this CTA; KernelError for an array of several, or a rank
               that is no integer; TargetError below sm_90, NotImplementedError on AMD
    not:       to be waited on, and barrier_arrive takes the local barrier and the rank instead. Needs a launch with ctas_per_cga
               wherever it may run, also for rank 0.
    example:   tlx.barrier_arrive(tlx.remote_view(free[0], 0))
    """
    if not isinstance(bar, mbarrier):
        refuse(AssertionError, f"remote_view takes an mbarrier only, got {bar}")
    if bar.type.storage is not storage_kind.smem:
        refuse(AssertionError, "remote_view takes a barrier of this CTA, not a remote_view",
               mend="give the array that alloc_barriers returned")
    needs_hopper("remote_view", _semantic, instead=ONE_GROUP)
    rank = _rank("remote_view", remote_cta_rank, _semantic)
    handle = _semantic.builder.record("remote_view", single_barrier("remote_view", bar, _semantic), rank).results[0]
    return mbarrier_type(0, bar.type.layout, storage_kind.smemCluster, bar.is_warp_barrier).value(handle)


@word
def remote_shmem_store(dst, src, remote_cta_rank, _semantic=None) -> None:
    """Store the tile `src` into the buffer `dst` of another CTA, by ordinary stores of the task's threads.

    args:      dst             - one buffer, named by this CTA's handle; it lies in plain rows, unswizzled
               src             - block tensor of the shape and dtype of `dst`
               remote_cta_rank - whose `dst`: an int or an i32 scalar, 0 to cluster size - 1; without a cluster 0, this CTA
    orders:    nothing. A cluster_barrier, or barrier_arrive(remote_cta_rank=...) and the wait for it, make the tile visible.
    errors:    KernelError for a `dst` that is not one buffer, a `src` of another shape or dtype, or a rank that is no
               integer; AssertionError for a `dst` outside shared memory; TargetError below sm_90, NotImplementedError on AMD
    not:       for a later TMA or MMA read without fence("async_shared").
    lowers to: PTX mapa, st.shared::cluster
    example:   tlx.remote_shmem_store(tile[0], x, rank ^ 1)
               tlx.cluster_barrier()
    """
    needs_hopper("remote_shmem_store", _semantic, instead=ONE_GROUP)
    flat = _flat_tile("remote_shmem_store", dst, src, _semantic)
    _semantic.builder.record("remote_store", dst.handle, flat, _rank("remote_shmem_store", remote_cta_rank, _semantic))


@word
def async_remote_shmem_store(dst, src, remote_cta_rank, barrier, _semantic=None) -> None:
    """Start storing the tile `src` into the buffer `dst` of another CTA; each byte completes on that CTA's `barrier`.

    args:      dst             - one buffer of 4 bytes or more, named by this CTA's handle; it lies in plain rows, unswizzled
               src             - block tensor of the shape and dtype of `dst`
               remote_cta_rank - whose `dst` and `barrier`: an int or an i32 scalar, 0 to cluster size - 1
               barrier         - mbarrier, named by this CTA's handle; the receiver expects prod(shape) * size_of(dtype) bytes
                                 from each sender
    orders:    the tile -> what a task of the receiver does after waiting on its `barrier`
    errors:    KernelError as for remote_shmem_store, and for a buffer below 4 bytes or a `barrier` that is not one
               mbarrier; AssertionError for a remote view; AssertionError for a `dst` outside shared memory; TargetError below
               sm_90, NotImplementedError on AMD
    lowers to: PTX mapa, st.async; each element is stored by one thread.
    example:   tlx.barrier_expect_bytes(full[0], 128 * 4)
               tlx.async_remote_shmem_store(theirs[0], x, rank ^ 1, full[0])
    """
    name = "async_remote_shmem_store"
    needs_hopper(name, _semantic, instead=ONE_GROUP)
    flat = _flat_tile(name, dst, src, _semantic)
    if _bytes(dst) < 4:
        refuse(KernelError, f"{name}: {dst} has {_bytes(dst)} bytes, and the hardware stores 4, 8 or 16 at a time",
                            mend="store a wider element, or several of them")
    handle = single_barrier(name, _local(name, barrier), _semantic)
    _semantic.builder.record("async_remote_store", dst.handle, flat, _rank(name, remote_cta_rank, _semantic), handle)


@word
def async_remote_shmem_copy(dst, src, remote_cta_rank, barrier, _semantic=None) -> None:
    """Start copying this CTA's buffer `src` into `dst` of another CTA; one thread of the task issues it.

    args:      dst             - one buffer, named by this CTA's handle
               src             - one buffer of as many bytes, a multiple of 16. Its bytes are copied as they lie: buffers of one
                                 shape and dtype get one layout, and so do those of which parts of one shape are copied, rows
                                 by eights and columns by 128 bytes: such a part is a copy for each stripe of the swizzle.
                                 Others lie in plain rows
               remote_cta_rank - whose `dst` and `barrier`: an int or an i32 scalar, 0 to cluster size - 1
               barrier         - mbarrier, named by this CTA's handle, that completes the bytes in the receiver
    orders:    the bytes -> what a task of the receiver does after waiting on its `barrier`
    errors:    KernelError for operands that are not one buffer, sizes that differ or are no multiple of 16 bytes, a
               `barrier` that is not one mbarrier, or a rank that is no integer; AssertionError for a remote view;
               AssertionError for a buffer outside shared memory; TargetError below sm_90, NotImplementedError on AMD
    not:       after generic writes to `src`: fence("async_shared") first.
    lowers to: PTX mapa, cp.async.bulk.shared::cluster.shared::cta
    example:   tlx.async_remote_shmem_copy(theirs[0], mine[0], rank ^ 1, full[0])
    """
    name = "async_remote_shmem_copy"
    needs_hopper(name, _semantic, instead=ONE_GROUP)
    dst, src = (single_buffer(name, parameter, buffer, _semantic) for parameter, buffer in (("dst", dst), ("src", src)))
    if _bytes(dst) != _bytes(src) or _bytes(dst) % 16:
        refuse(KernelError, f"{name}: dst has {_bytes(dst)} bytes and src {_bytes(src)}; both must be equal "
                            "and a multiple of 16")
    handle = single_barrier(name, _local(name, barrier), _semantic)
    _semantic.builder.record("async_remote_copy", dst.handle, src.handle, _rank(name, remote_cta_rank, _semantic), handle)


def _local(name: str, bar):
    if isinstance(bar, mbarrier) and bar.type.storage is not storage_kind.smem:
        refuse(AssertionError, f"{name} takes the local mbarrier; its rank is remote_cta_rank")
    return bar


def _rank(name: str, rank, semantic):
    return index_handle(f"{name}: `remote_cta_rank`", rank, semantic)


def _bytes(buffer: buffered_tensor) -> int:
    return prod(buffer.shape) * buffer.dtype.primitive_bitwidth // 8


def _flat_tile(name: str, dst, src, semantic):
    """The handle of `src` as a flat tile, in the order of its elements; an error unless it fits `dst`."""
    dst = single_buffer(name, "dst", dst, semantic)
    if not isinstance(src, tl.tensor) or tuple(getattr(src.type, "shape", ())) != dst.shape or src.dtype != dst.dtype:
        refuse(KernelError, f"{name}: `src` must be a block tensor of the shape and dtype of {dst}, got {src}")
    return semantic.reshape(src, [prod(dst.shape)], can_reorder=False).handle
