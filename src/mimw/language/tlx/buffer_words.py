"""Accesses of AMD's chips to elements at 32-bit offsets from one pointer: loads, stores, atomics, copies into shared memory.

Input: the arguments of a kernel's call. Output: ops that hold the tile of pointers, which every reader of the IR goes by, and
beside it the base and the offsets, which the instruction takes. For example:

    x = tlx.buffer_load(x_ptr, at)      %p = addptr %x_ptr.., %at        %x = buffer_load %p, base=%x_ptr, at=%at, ..

The instruction takes a wave's base from scalar registers and an offset below 2 GiB of each lane, and gives a masked lane an offset
that is out of range: it reads zero, or writes nothing.
"""

from __future__ import annotations

import triton.language.core as tl

from ...errors import KernelError
from ..core import word
from ..refuse import refuse
from .arguments import handle_of, is_int, single_buffer
from .types import async_token

__all__ = ["buffer_atomic_add", "buffer_load", "buffer_load_to_local", "buffer_store"]

_LOAD_CACHES, _STORE_CACHES = ("", ".ca", ".cg", ".cs", ".cv"), ("", ".wb", ".cg", ".cs", ".wt")
_ATOMIC_TYPES = (tl.float16, tl.bfloat16, tl.float32, tl.float64, tl.int32, tl.int64)
_SEMANTICS, _SCOPES = ("acquire", "release", "acq_rel", "relaxed"), ("gpu", "cta", "sys")


@word
def buffer_load(ptr, offsets, mask=None, other=None, cache: tl.constexpr = None, contiguity: tl.constexpr = 1,
                _semantic=None) -> tl.tensor:
    """Load the elements at `offsets` from `ptr`.

    args:      ptr     - pointer, a scalar
               offsets - block tensor of int32 or uint32, in elements; times the element's size they are below 2^31 - 2 and not
                         negative: for a larger tensor move `ptr` on, in 64 bits, and count from there
               mask    - (opt) i1, broadcast; where false nothing is read, and the element is `other`
               other   - (opt) value for masked elements, 0 by default; only with `mask`
               cache   - (opt) "", ".ca", ".cg", ".cs" or ".cv", which goes past the caches as a volatile load does
               contiguity - (opt) a power of two: so many neighbours along the last dimension, from a multiple on, have offsets that
                         follow each other, which the compiler need not see; one thread loads them at once
    returns:   a tensor of the element type, in the shape of the offsets
    orders:    as tl.load
    errors:    AssertionError for a `ptr` that is no scalar pointer, offsets that are no 32-bit integers, `other` without `mask`, or
               a `contiguity` that is no power of two; ValueError for another `cache`; KernelError for a `mask` that is not
               boolean; TargetError on chips other than AMD's; from the simulator OutOfBounds for an offset that is out of range,
               and BufferMisuse for offsets that are not as `contiguity` says
    lowers to: amdg.buffer_load; buffer_load_dwordx4 and narrower
    example:   x = tlx.buffer_load(x_ptr, offsets, mask=offsets < n, other=0.0)
    """
    _check(ptr, offsets, mask, other, contiguity)
    cache = _cache("buffer_load", cache, _LOAD_CACHES)
    base = _of_bytes(ptr, _semantic)
    offsets, mask = _masked("buffer_load", offsets, mask, _semantic)
    other = _value(other, base, offsets, _semantic)
    found = _semantic.builder.record("buffer_load", _pointers(base, offsets, _semantic), handle_of(mask), handle_of(other),
                                     base.handle, offsets.handle, cache, contiguity, cache == ".cv").results[0]
    loaded = _semantic.tensor(found, offsets.type.with_element_ty(base.dtype.element_ty))
    return loaded if base is ptr else _semantic.cast(loaded, tl.int1)


@word
def buffer_store(stored_value, ptr, offsets, mask=None, cache: tl.constexpr = None, _semantic=None) -> None:
    """Store `stored_value` at `offsets` from `ptr`.

    args:      stored_value - cast to the element type, and broadcast
               ptr, offsets, mask - as of `buffer_load`; where the mask is false nothing is written
               cache   - (opt) "", ".wb", ".cg", ".cs" or ".wt"
    orders:    as tl.store
    errors:    AssertionError, ValueError, KernelError and TargetError, as of `buffer_load`, and OutOfBounds from the simulator
    lowers to: amdg.buffer_store; buffer_store_dwordx4 and narrower
    example:   tlx.buffer_store(value, x_ptr, offsets, mask=offsets < n)
    """
    _check(ptr, offsets, mask)
    cache = _cache("buffer_store", cache, _STORE_CACHES)
    base = _of_bytes(ptr, _semantic)
    offsets, mask = _masked("buffer_store", offsets, mask, _semantic)
    value = _value(stored_value, base, offsets, _semantic)
    _semantic.builder.record("buffer_store", _pointers(base, offsets, _semantic), value.handle, handle_of(mask), base.handle,
                             offsets.handle, cache)


@word
def buffer_atomic_add(ptr, offsets, value, mask=None, sem: tl.constexpr = None, scope: tl.constexpr = None,
                      contiguity: tl.constexpr = 1, _semantic=None) -> tl.tensor:
    """Add `value` at `offsets` from `ptr`, one step for each element.

    args:      ptr, offsets, mask, contiguity - as of `buffer_load`. Elements of 16 bits are added two at once: `contiguity` is 2 at
                         least, and a mask is alike for both
               value   - cast to the element type, and broadcast
               sem     - (opt) "acquire", "release", "acq_rel", the default, or "relaxed"
               scope   - (opt) "gpu", the default, "cta" or "sys"
    returns:   what was there before, 0 for masked elements
    orders:    as tl.atomic_add
    errors:    as of `buffer_load`: AssertionError, KernelError, TargetError; AssertionError for element types other than fp16,
               bf16, fp32, fp64, int32 and int64, and for 16 bits without `contiguity`; ValueError for another `sem` or `scope`;
               KernelError for a mask that is seen to cut a pair, BufferMisuse from the simulator for one that does in a run;
               TargetError on gfx1250, and for bf16 on gfx942
    lowers to: amdg.buffer_atomic_rmw; buffer_atomic_add, _add_f32, _add_f64, _pk_add_f16, _pk_add_bf16, and for what `sem` orders
               buffer_wbl2 and buffer_inv; with scope "sys" global_atomic_add and, of floats, global_atomic_cmpswap
    example:   before = tlx.buffer_atomic_add(x_ptr, offsets, value, mask=offsets < n)
    """
    _check(ptr, offsets, mask, contiguity=contiguity)
    element = ptr.dtype.element_ty
    if element not in _ATOMIC_TYPES:
        refuse(AssertionError, f"buffer_atomic_add supports {', '.join(map(str, _ATOMIC_TYPES))}, got {element}")
    if element.primitive_bitwidth == 16 and contiguity < 2:
        refuse(AssertionError, f"buffer_atomic_add: elements of {element} are added two at once, which needs contiguity >= 2",
               mend="let offsets come in pairs of neighbours, and say so by contiguity=2; or add in tl.float32")
    for name, given, known in (("sem", sem, _SEMANTICS), ("scope", scope, _SCOPES)):
        if given is not None and given not in known:
            refuse(ValueError, f"buffer_atomic_add: {name} must be one of {known}, got {given!r}")
    offsets, mask = _masked("buffer_atomic_add", offsets, mask, _semantic)
    if element.primitive_bitwidth == 16 and offsets.type.shape[-1] < 2:
        refuse(AssertionError, f"buffer_atomic_add: {element} is added two elements at once, and a row of offsets has one")
    value = _value(value, ptr, offsets, _semantic)
    found = _semantic.builder.record("buffer_atomic_add", _pointers(ptr, offsets, _semantic), value.handle, handle_of(mask),
                                     _semantic._str_to_sem(sem), _semantic._str_to_scope(scope), ptr.handle, offsets.handle,
                                     contiguity).results[0]
    return _semantic.tensor(found, value.type)


@word
def buffer_load_to_local(dest, ptr, offsets, mask=None, other=None, cache_modifier: tl.constexpr = "",
                         _semantic=None) -> async_token:
    """Start copying the elements at `offsets` from `ptr` into `dest`, past the registers; each wave of the task copies its part.

    args:      dest    - one buffer of the offsets' shape and the pointer's element type
               ptr, offsets, mask, other - as of `buffer_load`: a masked element becomes `other`, 0 by default
               cache_modifier - "", ".ca", ".cg", ".cs" or ".cv"
    returns:   a token of the copy, for `async_load_commit_group`
    orders:    as `async_load`: nothing until this task has waited for the group; another task sees the data after that wait and a
               barrier
    errors:    AssertionError, ValueError and TargetError as of `buffer_load`; KernelError for a `dest` that is not one buffer, or
               of another shape or element type; AssertionError for a buffer outside shared memory
    not:       faster than ordinary loads where a thread's piece is not 4 or 16 bytes (gfx942: 4 only) that surely lie together, are
               masked together, and follow each other in the buffer from lane to lane: such a copy goes through registers as a
               whole, the data are in place at once, and its group is empty
    lowers to: amdg.buffer_load_to_local; buffer_load_dword and buffer_load_dwordx4 with lds; on gfx1250
               ttg.async_copy_global_to_local, global_load_async_to_lds_b128 and narrower
    example:   token = tlx.buffer_load_to_local(tile[0], x_ptr, offsets)
    """
    _check(ptr, offsets, mask, other)
    cache = _cache("buffer_load_to_local", cache_modifier, _LOAD_CACHES)
    dest = single_buffer("buffer_load_to_local", "dest", dest, _semantic)
    offsets, mask = _masked("buffer_load_to_local", offsets, mask, _semantic)
    shape = list(offsets.type.shape)
    if shape != list(dest.shape):
        refuse(KernelError, f"buffer_load_to_local: the offsets have shape {shape}, the buffer {list(dest.shape)}")
    if ptr.dtype.element_ty != dest.dtype:
        refuse(KernelError, f"buffer_load_to_local: `ptr` is to {ptr.dtype.element_ty}, the buffer holds {dest.dtype}",
               mend="allocate with tlx.dtype_of(ptr): a copy converts nothing")
    other = _value(other, ptr, offsets, _semantic)
    handle = _semantic.builder.record("buffer_load_to_local", _pointers(ptr, offsets, _semantic), dest.handle, handle_of(mask),
                                      handle_of(other), ptr.handle, offsets.handle, cache, cache == ".cv").results[0]
    return async_token(handle)


def _check(ptr, offsets, mask=None, other=None, contiguity: int = 1) -> None:
    if not isinstance(ptr, tl.tensor) or not ptr.type.is_ptr():
        refuse(AssertionError, "ptr must be a scalar pointer type")
    if not isinstance(offsets, tl.tensor) or not offsets.type.is_block():
        refuse(AssertionError, "offsets must be a tensor type")
    if offsets.dtype not in (tl.int32, tl.uint32):
        refuse(AssertionError, f"offsets element type must be int32 or uint32, got {offsets.dtype}")
    if other is not None and mask is None:
        refuse(AssertionError, "other needs a mask", mend="give a mask: `other` stands where it is false")
    if not is_int(contiguity) or contiguity <= 0 or contiguity & (contiguity - 1):
        refuse(AssertionError, f"contiguity must be a positive power of two, got {contiguity!r}")


def _cache(name: str, cache, known: tuple[str, ...]) -> str:
    cache = cache or ""
    if cache not in known:
        refuse(ValueError, f"{name}: the cache modifier must be one of {known}, got {cache!r}")
    return cache


def _of_bytes(ptr, semantic):
    """The pointer; one to booleans as one to the bytes in which they lie, as tl.load has it."""
    return semantic.cast(ptr, tl.pointer_type(tl.int8)) if ptr.dtype.element_ty == tl.int1 else ptr


def _masked(name: str, offsets, mask, semantic):
    """Offsets and mask in one shape."""
    if mask is None:
        return offsets, None
    offsets, mask = semantic.broadcast_impl_value(offsets, semantic.to_tensor(mask))
    if mask.dtype != tl.int1:
        refuse(KernelError, f"{name}: `mask` must be a tensor of booleans, got {mask}")
    return offsets, mask


def _value(value, ptr, offsets, semantic):
    """A value in the element type and in the shape of the offsets, or None."""
    if value is None:
        return None
    element = ptr.dtype.element_ty
    if isinstance(value, int) and element.is_fp8():     # which Triton converts from floats alone
        value = float(value)
    value = semantic.cast(semantic.to_tensor(value), element)
    return semantic.broadcast_impl_shape(value, offsets.type.shape)


def _pointers(ptr, offsets, semantic):
    return semantic.add(ptr, offsets, False).handle
