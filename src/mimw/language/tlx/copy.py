"""Asynchronous copies from global to shared memory by a task's threads (cp.async), in groups.

Input: the arguments of a kernel's call. Output: ops `async_load`, `async_commit` and `async_wait`, each with a token.
For example:

    t = tlx.async_load(pointers, tile)          %t = async_load %pointers, %tile, cache_policy=.., .. : token
    c = tlx.async_load_commit_group((t, ))      %c = async_commit [%t] : token
    tlx.async_load_wait_group(0, (c, ))         async_wait pending=0, [%c] : token
"""

from __future__ import annotations

from math import copysign

import triton.language.core as tl

from ...errors import KernelError
from ..core import word
from ..refuse import refuse
from .arguments import EVICTION_POLICIES, cache_policy, handle_of, is_int, single_buffer
from .bulk import bulk_load
from .types import async_token

__all__ = ["async_load", "async_load_commit_group", "async_load_wait_group"]


@word
def async_load(src, result, mask=None, other=None, cache_modifier: tl.constexpr = "", eviction_policy: tl.constexpr = "",
               is_volatile: tl.constexpr = False, bulk: tl.constexpr = False, bulk_size=None, barrier=None,
               _semantic=None) -> async_token:
    """Start copying the elements that `src` points at into `result`; each thread of the task copies its part.

    args:      src    - block tensor of pointers
               result - one buffer of the same shape and element type
               mask   - (opt) i1, broadcast; where false nothing is read, and the element becomes `other`
               other  - (opt) value for masked elements, 0 by default
               cache_modifier  - "", ".ca" or ".cg"; of a bulk copy "";  eviction_policy - "", "evict_first" or "evict_last"
               bulk   - True: one thread starts one copy of `bulk_size` consecutive bytes from `src` (a pointer, or a block whose
                        first is the base) into a 1-D `result`. Both lie at multiples of 16 bytes; no mask, no other
               bulk_size - (opt) bytes, an int or integer scalar, a multiple of 16; by default the whole buffer
               barrier - of a bulk copy: the mbarrier that its bytes complete on; expect them first
    returns:   a token of the copy
    orders:    nothing until this task has waited for the group; then its threads see the data. Another task sees them after
               that wait and a barrier. Bulk: the data -> what a task does after waiting on `barrier`.
    errors:    KernelError for a `result` that is not one buffer, pointers of another shape or element type, or a mask
               that is not boolean; ValueError for an unknown modifier or policy, and for `other` without `mask`;
               NotImplementedError for a block pointer; AssertionError for a buffer outside shared memory; AssertionError for
               `bulk_size` or `barrier` without `bulk`, and with it for a mask, no barrier, a buffer of another rank or
               too many bytes; bulk: KernelError for a known `bulk_size` that is no multiple of 16, IllegalCopy from the simulator
               for a size or an address that is none in a run; TargetError below sm_90, NotImplementedError on AMD
    not:       faster than ordinary loads where a thread's piece is below 4 bytes or, on NVIDIA, `other` is not zero: those go
               through registers, and the data are in place at once; on AMD also what `buffer_load_to_local` says of itself
    lowers to: ttg.async_copy_global_to_local; PTX cp.async, AMD global_load_lds_dwordx4 and narrower; bulk: PTX
               cp.async.bulk.shared::cluster.global, with a policy .L2::cache_hint
    example:   token = tlx.async_load(x_ptr + offsets, tile[slot], mask=offsets < n)
    """
    if bulk:
        if mask is not None or other is not None:
            refuse(AssertionError, "async_load: bulk=True takes no mask and no other")
        return async_token(bulk_load(src, result, bulk_size, barrier, cache_modifier, eviction_policy, _semantic))
    if bulk_size is not None:
        refuse(AssertionError, "async_load: bulk_size needs bulk=True")
    if barrier is not None:
        refuse(AssertionError, "async_load: barrier needs bulk=True")
    result = single_buffer("async_load", "result", result, _semantic)
    if eviction_policy not in EVICTION_POLICIES:
        refuse(ValueError, f"async_load: eviction_policy must be one of {EVICTION_POLICIES}, got {eviction_policy!r}")
    policy = cache_policy("async_load", cache_modifier, eviction_policy, ("", ".ca", ".cg"), _semantic)
    src, mask, other = _operands(src, mask, other, _semantic)
    element = src.dtype.element_ty
    if tuple(src.type.shape) != result.shape:
        refuse(KernelError, f"async_load: the pointers have shape {list(src.type.shape)}, the buffer {list(result.shape)}")
    if element != result.dtype:
        refuse(KernelError, f"async_load: the pointers are to {element}, the buffer holds {result.dtype}",
                            mend="allocate with tlx.dtype_of(pointer): an asynchronous copy converts nothing")
    handle = _semantic.builder.record("async_load", src.handle, result.handle, handle_of(mask), handle_of(other), policy,
                                      bool(is_volatile)).results[0]
    return async_token(handle)


def _operands(src, mask, other, semantic):
    """Pointers, mask and other in one shape; `other` in the element type."""
    if not isinstance(src, tl.tensor) or not src.dtype.is_ptr():
        refuse(KernelError, f"async_load: `src` must be a block tensor of pointers, got {src}")
    if src.dtype.element_ty.is_block():
        refuse(NotImplementedError, "async_load: block pointers are not supported; use a tensor of pointers or a descriptor")
    if not src.type.is_block():
        refuse(KernelError, "async_load: `src` is a single pointer, a block tensor of pointers is needed")
    if mask is not None:
        src, mask = semantic.broadcast_impl_value(src, semantic.to_tensor(mask))
        if mask.dtype != tl.int1:
            refuse(KernelError, f"async_load: `mask` must be a tensor of booleans, got {mask}")
    if other is not None:
        if mask is None:
            refuse(ValueError, "async_load: `other` cannot be provided without `mask`")
        if isinstance(other, (int, float)) and other == 0 and copysign(1, other) > 0:
            return src, mask, None  # what the copy itself puts there
        other = semantic.cast(semantic.to_tensor(other), src.dtype.element_ty)
        src, other = semantic.broadcast_impl_value(src, other)
    return src, mask, other


@word
def async_load_commit_group(tokens=(), _semantic=None) -> async_token:
    """Close this task's current group of `async_load`s; a group without loads counts too.

    args:      tokens - (opt) of the loads in the group
    returns:   a token of the group
    errors:    KernelError for anything but tokens
    lowers to: ttg.async_commit_group
    example:   token = tlx.async_load_commit_group([token])
    """
    handles = _tokens("async_load_commit_group", tokens, _semantic)
    return async_token(_semantic.builder.record("async_commit", handles).results[0])


@word
def async_load_wait_group(pendings: tl.constexpr, tokens=(), _semantic=None) -> async_token:
    """Hold this task until at most `pendings` of its newest groups are unfinished.

    args:      pendings - how many may still run, >= 0
               tokens   - (opt) of the commits waited for
    returns:   a token of the wait, for the reads that come after it
    orders:    the finished groups' data -> this task's reads after the wait
    errors:    ValueError for `pendings` that is no constexpr int >= 0; KernelError for anything but tokens
    lowers to: ttg.async_wait
    example:   tlx.async_load_wait_group(1)     # all but the newest group are there
    """
    if not is_int(pendings) or pendings < 0:
        refuse(ValueError, f"async_load_wait_group: pendings must be a constexpr int >= 0, got {pendings!r}")
    handles = _tokens("async_load_wait_group", tokens, _semantic)
    return async_token(_semantic.builder.record("async_wait", pendings, handles).results[0])


def _tokens(name: str, tokens, semantic) -> tuple:
    tokens = (tokens, ) if isinstance(tokens, tl.base_value) else tuple(tokens)
    for token in tokens:
        if not isinstance(token, async_token):
            refuse(KernelError, f"{name}: `tokens` must hold async_tokens, got {token}")
    return tuple(token.handle for token in tokens)
