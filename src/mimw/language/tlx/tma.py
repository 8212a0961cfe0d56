"""Tile copies between global and shared memory through tensor descriptors (TMA), on sm_90 and newer.

Input: the arguments of a kernel's call. Output: ops `tma_load`, `tma_load_multicast`, `tma_load_pair`, `tma_store` and
`tma_store_wait`. For example:

    tlx.async_descriptor_load(desc, tile, [i, j], full)       tma_load %desc, [%i, %j], %full, %tile, cache_policy=..
    tlx.async_descriptor_store(desc, tile, [i, j])            tma_store %desc, [%i, %j], %tile, .., reduce=''
    tlx.async_descriptor_store_wait(0)                        tma_store_wait pending=0
"""

from __future__ import annotations

from typing import Any

import triton.language.core as tl

from ...errors import KernelError
from ..core import word
from ..described import described
from ..descriptor_methods import check_reduction, needs_descriptor
from ..refuse import refuse
from . import pairs
from .arguments import (
    EVICTION_POLICIES,
    cache_policy,
    index_handle,
    is_int,
    needs_hopper,
    needs_tensor_memory,
    predicate_handle,
    single_barrier,
    single_buffer,
)

__all__ = ["async_descriptor_load", "async_descriptor_store", "async_descriptor_store_wait"]


@word
def async_descriptor_load(desc, result, offsets, barrier, pred=None, cache_modifier: tl.constexpr = "",
                          eviction_policy: tl.constexpr = "", multicast_targets=(), two_ctas: tl.constexpr = False,
                          _semantic=None) -> None:
    """Start copying one block of `desc` into `result`; one thread of the task issues it.

    args:      desc    - tensor descriptor, made on the host or by tl.make_tensor_descriptor
               result  - one buffer (or slice) of the block's shape, leading ones aside, and of its dtype
               offsets - first element of the block, one i32 a dimension, the last a multiple of 16 bytes; negative ones may be, and
                         out of bounds reads give the padding value
               barrier - mbarrier (or array of one) that completes prod(block shape) * size_of(dtype) bytes, out of bounds
                         parts included; expect them first
               pred    - (opt) scalar; nothing happens when false
               cache_modifier  - "", ".ca", ".cg", ".cs" or ".cv": no effect, TMA has eviction policies only
               eviction_policy - "", "evict_first" or "evict_last"
               multicast_targets - (opt) ranks of CTAs of the cluster, ints or i32 scalars: the block lands at the same place in
                                   each of them and completes its bytes on the same barrier there. Without a cluster the only
                                   rank is 0.
               two_ctas - (sm_100) the bytes complete on the barrier of the even CTA of this CTA's pair; with
                          `multicast_targets`, those of each target on the barrier of the even CTA of that target's pair
    orders:    the block -> what a task does after waiting on `barrier`
    errors:    AssertionError for anything but a descriptor, another number of offsets or an unknown policy; KernelError
               for a `result` that is not one buffer of the block's shape and dtype, a `barrier` that is not one
               mbarrier, a `pred` that is no scalar or a rank that is no integer; IllegalCopy for a last offset that is no multiple
               of 16 bytes (an illegal instruction), when compiling if it is known then, else from the simulator; ValueError for an
               unknown cache modifier; AssertionError for a buffer outside shared memory, and for `two_ctas` on chips without tensor
               memory; TargetError below sm_90, NotImplementedError on Ascend
    on AMD:    copies by pointers, by the task's threads, and an arrival when they have landed (docs/AMD.md); not
               `multicast_targets`: TargetError
    lowers to: ttng.async_tma_copy_global_to_local; PTX cp.async.bulk.tensor with .multicast::cluster,
               or .cta_group::2
    example:   tlx.barrier_expect_bytes(full[slot], BM * BK * 2)
               tlx.async_descriptor_load(desc, A[slot], [m, k], full[slot])
    """
    needs_hopper("async_descriptor_load", _semantic, mapped="tma", amd="async_amd_descriptor_load",
                 older="copy from pointers by tlx.async_load, and wait for it by tlx.async_load_wait_group")
    offsets = checked_offsets("async_descriptor_load", desc, offsets, eviction_policy, _semantic, result)
    policy = cache_policy("async_descriptor_load", cache_modifier, eviction_policy, ("", ".ca", ".cg", ".cs", ".cv"), _semantic)
    result = _block_buffer("async_descriptor_load", "result", desc, result, _semantic)
    if two_ctas:
        needs_tensor_memory("async_descriptor_load(two_ctas=True)", _semantic)
    handle = single_barrier("async_descriptor_load", barrier, _semantic)
    predicate = predicate_handle("async_descriptor_load", pred, _semantic)
    targets = tuple(index_handle("async_descriptor_load: each of `multicast_targets`", rank, _semantic)
                    for rank in multicast_targets)
    if two_ctas:
        pairs.record_load(desc, offsets, handle, result.handle, targets, predicate, policy, _semantic)
        return
    if not targets:
        _semantic.builder.record("tma_load", desc.handle, offsets, handle, result.handle, predicate, policy)
        return
    _semantic.builder.record("tma_load_multicast", desc.handle, offsets, handle, result.handle, targets, predicate, policy)


@word
def async_descriptor_store(desc, source, offsets, eviction_policy: tl.constexpr = "", store_reduce: tl.constexpr = "",
                           _semantic=None) -> None:
    """Start copying `source` to one block of `desc`, as a bulk group of its own; one thread of the task issues it.

    args:      desc    - tensor descriptor
               source  - one buffer of the block's shape, leading ones aside, and of its dtype
               offsets - first element of the block, one i32 a dimension, none negative, the last a multiple of 16 bytes; elements
                         behind the far edges are not written, but that TMA writes whole 16 bytes of a row: a row that ends
                         within them takes what is behind with it
               eviction_policy - "", "evict_first" or "evict_last"; left out of a reduction whose `desc` an `if` or a loop passes on
               store_reduce    - "", or "add", "min", "max", "and", "or", "xor": combine atomically with what is there
    orders:    nothing until the task has waited by async_descriptor_store_wait
    errors:    AssertionError for anything but a descriptor, another number of offsets, an unknown policy or reduction;
               KernelError for a `source` that is not one buffer of the block's shape and dtype, and for a type that the
               hardware cannot reduce; IllegalCopy for a negative offset, and a last one that is no multiple of 16 bytes (an illegal
               instruction), when compiling if it is known then, else from the simulator: begin at 0 with a block that is shifted
               or cut, or store under a mask by tl.store; AssertionError for a buffer outside shared memory; TargetError below
               sm_90, NotImplementedError on Ascend
    on AMD:    a read of the buffer and stores by pointers, atomics for a reduction; not the min and max of floats: TargetError
    not:       after generic writes to `source`: fence("async_shared") first. Do not overwrite `source` before the store wait.
    lowers to: ttng.async_tma_copy_local_to_global, ttng.async_tma_reduce; a reduction with a policy PTX
               cp.reduce.async.bulk.tensor with .L2::cache_hint
    example:   tlx.fence("async_shared")
               tlx.async_descriptor_store(desc, tile[0], [m, n])
               tlx.async_descriptor_store_wait(0)
    """
    needs_hopper("async_descriptor_store", _semantic, mapped="tma", amd="async_amd_descriptor_store",
                 older="store through pointers: tl.store(pointers, tlx.local_load(source))")
    offsets = checked_offsets("async_descriptor_store", desc, offsets, eviction_policy, _semantic, source)
    check_reduction("async_descriptor_store", store_reduce, desc.dtype)
    source = _block_buffer("async_descriptor_store", "source", desc, source, _semantic)
    policy = cache_policy("async_descriptor_store", "", eviction_policy, ("", ), _semantic)
    _semantic.builder.record("tma_store", desc.handle, offsets, source.handle, policy, store_reduce)


@word
def async_descriptor_store_wait(pendings: tl.constexpr, _semantic=None) -> None:
    """Hold this task until at most `pendings` of its newest store groups are incomplete.

    args:      pendings - how many may still run, >= 0
    orders:    the finished stores' global writes and reads of shared memory -> what this task does after
    errors:    ValueError for `pendings` that is no constexpr int >= 0
    not:       stores of other tasks; the task that issued them waits
    lowers to: ttng.async_tma_store_wait
    example:   tlx.async_descriptor_store_wait(0)
    """
    if not is_int(pendings) or pendings < 0:
        refuse(ValueError, f"async_descriptor_store_wait: pendings must be a constexpr int >= 0, got {pendings!r}")
    _semantic.builder.record("tma_store_wait", pendings)


def checked_offsets(name: str, desc, offsets, eviction_policy: str, semantic, buffer: Any = None) -> tuple:
    """Check the arguments that loads and stores share; the offsets as i32 handles. `buffer` has the shape of blocks."""
    needs_descriptor(AssertionError, name, desc, getattr(buffer, "shape", ()))
    rank = len(desc.block_shape)
    if not hasattr(offsets, "__len__"):
        refuse(AssertionError, f"{name}: `offsets` must be a list of {rank}, one for each axis, got {described(offsets)}",
               mend="write them in brackets: `[row, column]`")
    if len(offsets) != rank:
        refuse(AssertionError, f"expected {rank} offsets, but got {len(offsets)}")
    if eviction_policy not in EVICTION_POLICIES:
        refuse(AssertionError, f"eviction_policy must be one of {EVICTION_POLICIES}, got {eviction_policy!r}")
    return tuple(semantic._convert_to_ir_values(offsets, require_i64=False))


def _block_buffer(name: str, parameter: str, desc, buffer, semantic):
    """`buffer`, or an error unless it is one buffer of the descriptor's dtype and block shape, which may have ones before the
    extents of the buffer."""
    buffer = single_buffer(name, parameter, buffer, semantic)
    block = tuple(desc.block_shape)
    ones = len(block) - len(buffer.shape)
    if ones < 0 or block != (*(1, ) * ones, *buffer.shape):
        refuse(KernelError, f"{name}: the buffer has shape {list(buffer.shape)}, the descriptor's block {list(desc.block_shape)}",
                            mend="both must be equal: rewrite block_shape on the host, or slice the buffer")
    if buffer.dtype != desc.dtype:
        refuse(KernelError, f"{name}: the buffer holds {buffer.dtype}, the descriptor {desc.dtype}",
                            mend="allocate with tlx.dtype_of(desc)")
    return buffer
