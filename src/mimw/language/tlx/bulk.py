"""Copies of consecutive bytes between global and shared memory by the bulk copy engine, on sm_90 and newer.

Input: the arguments of a kernel's call; those of `async_load(bulk=True)` come from `copy`. Output: ops `bulk_store`
and `bulk_load`. For example, of a 1-D buffer of 8192 bytes:

    tlx.async_store(pointer, line, 8192)                          bulk_store %pointer, %line, bytes=8192
    tlx.async_load(pointer, line, bulk=True, barrier=full)        bulk_load %pointer, %full, %line, bytes=8192 : token
"""

from __future__ import annotations

from math import prod
from typing import Any

import triton.language.core as tl

from ...errors import KernelError
from ...ir.tensor_map import bulk_problem
from ..core import word
from ..refuse import refuse
from .arguments import bulk_policy, is_int, needs_hopper, single_barrier, single_buffer
from .types import mbarrier

__all__ = ["async_store"]


@word
def async_store(dst_global_ptr, src_smem, size, eviction_policy: tl.constexpr = "", _semantic=None) -> None:
    """Start copying the first `size` bytes of `src_smem` to global memory, as a bulk group of its own; by one thread.

    args:      dst_global_ptr - scalar pointer, 16-byte aligned
               src_smem       - one 1-D buffer
               size           - bytes, an int or an integer scalar; a multiple of 16
               eviction_policy - "", "evict_first" or "evict_last": how long L2 keeps the lines
    orders:    nothing until the task has waited by async_descriptor_store_wait
    errors:    KernelError for another pointer, a `src_smem` that is not one buffer, or a size that is no multiple of
               16; IllegalCopy from the simulator for a size or an address that is no multiple of 16 bytes in a run; ValueError for
               an unknown policy; AssertionError for a buffer of another rank or a size above the buffer's; NotYet for a buffer
               outside this CTA's shared memory; TargetError below sm_90, NotImplementedError on AMD
    not:       after generic writes to `src_smem`: fence("async_shared") first. Do not overwrite it before
               async_descriptor_store_wait, which also ends this copy
    lowers to: PTX cp.async.bulk.global.shared::cta.bulk_group, with a policy .L2::cache_hint
    example:   tlx.async_store(y_ptr, tile[0], 4096)
               tlx.async_descriptor_store_wait(0)
    """
    needs_hopper("async_store", _semantic, instead="store by tl.store(pointers, tlx.local_load(buffer)) there")
    pointer = _pointer("async_store", dst_global_ptr, _semantic)
    if pointer.type.is_block():
        refuse(KernelError, f"async_store: `dst_global_ptr` must be one pointer, got {pointer}")
    source = _line("async_store", "src_smem", src_smem, _semantic)
    size = _size("async_store", "size", size, source, _semantic)
    policy = _policy("async_store", "", eviction_policy, _semantic)
    _semantic.builder.record("bulk_store", pointer.handle, source.handle, size, policy)


def bulk_load(src, result, bulk_size, barrier, modifier: str, eviction: str, semantic) -> Any:
    """Check and record `async_load(bulk=True)`; its token. Of a block of pointers the first is the base."""
    needs_hopper("async_load(bulk=True)", semantic, instead="copy a tile of pointers, without bulk, there")
    if not isinstance(barrier, mbarrier):
        refuse(AssertionError, "async_load: bulk=True needs an mbarrier as `barrier`",
               mend="make one by tlx.alloc_barriers(1), and expect the bytes on it")
    result = _line("async_load", "result", result, semantic)
    size = bytes_of(result) if bulk_size is None else bulk_size
    size = _size("async_load", "bulk_size", size, result, semantic)
    pointer = _pointer("async_load", src, semantic)
    handle, policy = single_barrier("async_load", barrier, semantic), _policy("async_load", modifier, eviction, semantic)
    return semantic.builder.record("bulk_load", pointer.handle, handle, result.handle, size, policy).results[0]


def _policy(name: str, modifier: str, eviction: str, semantic):
    """The recorded cache hint; None where none is asked for."""
    policy = bulk_policy(name, modifier, eviction, semantic)
    return policy if eviction else None


def _pointer(name: str, pointer: Any, semantic) -> tl.tensor:
    if not isinstance(pointer, tl.tensor) or not pointer.dtype.is_ptr() or pointer.dtype.element_ty.is_block():
        refuse(KernelError, f"{name}: a pointer to global memory is needed, got {pointer}")
    return pointer


def bytes_of(buffer) -> int:
    """Bytes of one buffer."""
    return prod(buffer.shape) * buffer.dtype.primitive_bitwidth // 8


def _line(name: str, parameter: str, buffer: Any, semantic):
    buffer = single_buffer(name, parameter, buffer, semantic)
    if len(buffer.shape) != 1:
        refuse(AssertionError, f"{name}: a bulk copy needs a 1-D buffer, got {buffer}",
               mend="view it by tlx.local_reshape, or copy by a descriptor")
    return buffer


def _size(name: str, parameter: str, size: Any, buffer, semantic):
    """The number of bytes: an int, checked, or an i32 handle."""
    if is_int(size):
        room = bytes_of(buffer)
        if size > room:
            refuse(AssertionError, f"{name}: {parameter} {size} exceeds the buffer's {room} bytes")
        if problem := bulk_problem(size):
            refuse(KernelError, f"{name}: `{parameter}` makes {problem[0]}", mend=problem[1])
        return size
    if isinstance(size, tl.tensor) and not size.type.is_block() and size.dtype.is_int():
        return semantic.cast(size, tl.int32).handle
    refuse(KernelError, f"{name}: {parameter} must be an int or an integer scalar, got {size}")
