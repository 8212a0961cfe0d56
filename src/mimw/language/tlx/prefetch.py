"""Hints to the caches about later reads. None of these words changes the results of a kernel.

Input: the arguments of a kernel's call. Output: ops `tma_prefetch`, `prefetch` and `prefetch_descriptor`. For example:

    tlx.prefetch(pointers)                                       prefetch %pointers, level='L2'
    tlx.async_descriptor_prefetch_tensor(desc, [i, j])           tma_prefetch %desc, [%i, %j], cache_policy=..
"""

from __future__ import annotations

import triton.language.core as tl

from ...errors import KernelError
from ..core import capability, target_of, word
from ..refuse import refuse
from .arguments import cache_policy, handle_of, needs_hopper, predicate_handle
from .tma import checked_offsets

__all__ = ["async_descriptor_prefetch_tensor", "prefetch"]


@word
def async_descriptor_prefetch_tensor(desc, offsets, pred=None, eviction_policy: tl.constexpr = "", _semantic=None) -> None:
    """Prefetch one block of `desc` into L2; one thread of the task issues it. Arguments as of `async_descriptor_load`.

    errors:    AssertionError for anything but a descriptor, another number of offsets or an unknown policy; KernelError
               for a `pred` that is no scalar; IllegalCopy as there; TargetError below sm_90, NotImplementedError on
               Ascend; nothing is left of it on AMD
    not:       emitted for a descriptor that an `if` or a loop passes on: its address is not known then
    lowers to: PTX cp.async.bulk.prefetch.tensor.L2.global.tile, one for each box of the block
    example:   tlx.async_descriptor_prefetch_tensor(desc, [m, k + BK])
    """
    needs_hopper("async_descriptor_prefetch_tensor", _semantic, mapped="tma", amd="amd_descriptor_prefetch_tensor")
    offsets = checked_offsets("async_descriptor_prefetch_tensor", desc, offsets, eviction_policy, _semantic)
    policy = cache_policy("async_descriptor_prefetch_tensor", "", eviction_policy, ("", ), _semantic)
    predicate = predicate_handle("async_descriptor_prefetch_tensor", pred, _semantic)
    _semantic.builder.record("tma_prefetch", desc.handle, offsets, predicate, policy)


@word
def prefetch(pointer, level: tl.constexpr = "L2", mask=None, tensormap: tl.constexpr = False, _semantic=None) -> None:
    """Prefetch the cache lines that the pointers point at, or a tensor descriptor itself.

    args:      pointer   - block tensor of pointers, or one; with `tensormap` a tensor descriptor
               level     - "L1" or "L2"
               mask      - (opt) i1, broadcast: only where true
               tensormap - prefetch the descriptor; `level` and `mask` are ignored
    errors:    AssertionError for another level; KernelError for anything but pointers (a descriptor, with `tensormap`),
               and for a mask that is not boolean; NotImplementedError on gfx942 and gfx950; with `tensormap` TargetError
               below sm_90, NotImplementedError on AMD
    not:       emitted for a descriptor that an `if` or a loop passes on: its address is not known then
    lowers to: PTX prefetch.global.L1, prefetch.global.L2, prefetch.param.tensormap; on gfx1250 global_prefetch_b8
    example:   tlx.prefetch(x_ptr + offsets, level="L2", mask=offsets < n)
    """
    if tensormap:
        needs_hopper("prefetch(tensormap=True)", _semantic, mapped="tma")
        if not isinstance(pointer, tl.tensor_descriptor_base):
            refuse(KernelError, f"prefetch: tensormap=True needs a tensor descriptor, got {pointer}")
        _semantic.builder.record("prefetch_descriptor", pointer.handle)
        return
    if level not in ("L1", "L2"):
        refuse(AssertionError, f"prefetch: level must be 'L1' or 'L2', got {level!r}")
    chip = target_of(_semantic)
    if capability(_semantic) is None and (chip is None or chip.assembly != "gfx12"):
        refuse(NotImplementedError, f"tlx.prefetch is not available on {_semantic.builder.options.arch}, which has no instruction "
                                    "for it")
    if not isinstance(pointer, tl.tensor) or not pointer.dtype.is_ptr() or pointer.dtype.element_ty.is_block():
        refuse(KernelError, f"prefetch: a pointer or a block of pointers is needed, got {pointer}")
    if mask is not None:
        mask = _semantic.to_tensor(mask)
        if mask.dtype != tl.int1:
            refuse(KernelError, f"prefetch: `mask` must be boolean, got {mask}")
        pointer, mask = _semantic.broadcast_impl_value(pointer, mask)
    _semantic.builder.record("prefetch", pointer.handle, handle_of(mask), level)
