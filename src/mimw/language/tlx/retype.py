"""Buffers seen with another shape or element type; nothing moves.

Input: the arguments of a kernel's call. Output: an op `buffer_reinterpret`. For example, of one buffer (64, 64) of
fp16:

    tlx.local_reshape(tile, (4096, ))                  buffer_reinterpret %tile, buffer<fp16[4096]> : buffer<..>
    tlx.local_reinterpret(tile, tl.int8, (64, 128))    buffer_reinterpret %tile, buffer<i8[64, 128]> : buffer<..>
"""

from __future__ import annotations

from math import prod

import triton.language.core as tl

from ...errors import KernelError
from ..core import not_yet, word
from ..refuse import refuse
from .arguments import is_int, positive_int, row_as_it_is
from .layouts import row_major, shared_layout_encoding
from .types import buffered_tensor, buffered_tensor_type, storage_kind

__all__ = ["local_reinterpret", "local_reshape"]


@word
def local_reshape(buf, shape: tl.constexpr, _semantic=None) -> buffered_tensor:
    """A view with another shape: element number i in row-major order stays element number i.

    args:      buf   - a buffer in shared memory, or an array, each of whose buffers is reshaped
               shape - new extents with as many elements, else ValueError
    errors:    KernelError for anything but buffers, and for a transposed one; AssertionError for one outside shared memory;
               LayoutConflict where uses of both shapes (TMA, async_dot, a pinned layout) put the elements in orders that do
               not agree. Accesses by threads follow any order of the other shape
    lowers to: ttg.memdesc_reinterpret between layouts that agree on every byte
    example:   flat = tlx.local_reshape(tile[0], (4096, ))
    """
    buf = _in_shared_memory("local_reshape", buf, _semantic)
    shape = _extents("local_reshape", shape)
    if prod(shape) != prod(buf.shape):
        refuse(ValueError, f"local_reshape: shape {list(shape)} has {prod(shape)} elements, the buffer {list(buf.shape)} has "
                           f"{prod(buf.shape)}")
    return _seen_as("local_reshape", buf, buf.dtype, shape, buf.num, None, _semantic)


@word
def local_reinterpret(src, dtype: tl.constexpr, shape: tl.constexpr = None, layout: tl.constexpr = None,
                      _semantic=None) -> buffered_tensor:
    """The same bytes as elements of another type.

    args:      src    - a buffer in shared memory, or an array; or one in tensor memory, whose columns stay: as elements of the same
                        width, or one buffer as narrower ones, which take the first of its columns (fp32 as fp16: the first half)
               dtype  - the element type
               shape  - (opt) extents of one buffer, by default those of `src`; with those of as many bytes as the whole array
                        the result is one buffer
               layout - (opt) a shared layout, then fixed
    errors:    ValueError unless the bytes match and `dtype` is an element type; TypeError for a `layout` that is no shared layout,
               NotYet for one that this release cannot make; AssertionError for remote memory; KernelError for anything but
               buffers, and for a transposed one that is reshaped; LayoutConflict where other uses of the buffer put its bytes in
               an order that the new type cannot follow
    not:       a conversion of values; for another use of the memory after this one, `local_alloc(reuse=...)`
    lowers to: ttg.memdesc_reinterpret
    example:   bits = tlx.local_reinterpret(tile[0], tl.uint32)
    """
    if not isinstance(dtype, tl.dtype) or dtype.is_block():
        refuse(ValueError, f"local_reinterpret: dtype must be an element type such as tl.float16, got {dtype}")
    if layout is not None and not isinstance(layout, shared_layout_encoding):
        refuse(TypeError, f"`layout` must be a tlx.shared_layout_encoding, got {type(layout).__name__}")
    if isinstance(src, buffered_tensor) and src.type.storage is storage_kind.tmem:
        return _tensor_memory_as(src, dtype, shape, layout, _semantic)
    src = _in_shared_memory("local_reinterpret", src, _semantic)
    shape = src.shape if shape is None else _extents("local_reinterpret", shape)
    have, want = _bytes(src.dtype) * prod(src.shape), _bytes(dtype) * prod(shape)
    num = src.num
    if want != have:
        if want != have * max(1, num):
            every = f" each, {have * num} together" if num else ""
            refuse(ValueError, f"local_reinterpret: {dtype}{list(shape)} has {want} bytes, but {src} has {have} bytes{every}")
        num = 0
    return _seen_as("local_reinterpret", src, dtype, shape, num, layout, _semantic)


def _tensor_memory_as(src: buffered_tensor, dtype, shape, layout, semantic) -> buffered_tensor:
    """The same columns as elements of the same width."""
    for name, given in (("shape", shape), ("layout", layout)):
        if given is not None:
            refuse(KernelError, f"local_reinterpret: `{name}` is for shared memory, and {src} lies in tensor memory",
                   mend="give columns another shape by local_alloc(..., reuse=) of the array")
    if _bytes(dtype) > _bytes(src.dtype):
        refuse(ValueError, f"local_reinterpret: {dtype}{list(src.shape)} has {_bytes(dtype)} bytes an element, but {src} has "
                           f"{_bytes(src.dtype)}; tensor memory keeps its columns",
               mend="let an array of the other type share the columns: local_alloc(..., reuse=)")
    if _bytes(dtype) < _bytes(src.dtype):
        _check_narrower(src, dtype)
    type_ = buffered_tensor_type(dtype, src.shape, src.num, src.type.storage)
    builder = semantic.builder
    return type_.value(builder.record("buffer_reinterpret", src.handle, type_.to_ir(builder), layout=None).results[0])


def _check_narrower(src: buffered_tensor, dtype) -> None:
    """Refuse buffers that have no columns of their own as narrower elements: arrays, whose buffers would lie apart, tables of
    scales, and rows that fill no column."""
    if src.num:
        refuse(ValueError, f"local_reinterpret: the buffers of {src} would lie apart as {dtype}; tensor memory keeps its columns",
               mend="take one of them: tlx.local_reinterpret(x[0], dtype)")
    if dtype.is_int() and _bytes(dtype) == 1:
        refuse(ValueError, f"local_reinterpret: bytes in tensor memory are a table of scales, and {src} is none",
               mend="allocate the table with tl.uint8, or take an fp8 type")
    if src.shape[1] * _bytes(dtype) % 4:
        refuse(ValueError, f"local_reinterpret: a row of {src.shape[1]} {dtype} fills no column of 32 bits of tensor memory")


def _seen_as(name: str, buf: buffered_tensor, dtype, shape, num: int, layout, semantic) -> buffered_tensor:
    kept = (shape, num, _bytes(dtype)) == (buf.shape, buf.num, _bytes(buf.dtype))
    if not kept and buf.type.order != row_major(len(buf.shape)):
        refuse(KernelError, f"{name}: the rows of {buf} do not follow each other in memory, because it is transposed",
                            mend=f"{name} first, local_trans then")
    pinned = None if layout is None else layout.to_ir(shape, dtype.primitive_bitwidth)
    if layout is not None and pinned is None:
        raise not_yet(semantic, f"{name}(layout={type(layout).__name__})")
    layout, order = (buf.type.layout, buf.type.order) if kept and layout is None else (layout, None)
    type_ = buffered_tensor_type(dtype, shape, num, buf.type.storage, layout, order)
    builder = semantic.builder
    return type_.value(builder.record("buffer_reinterpret", buf.handle, type_.to_ir(builder), layout=pinned).results[0])


def _in_shared_memory(name: str, buf, semantic) -> buffered_tensor:
    if not isinstance(buf, buffered_tensor):
        refuse(KernelError, f"{name} takes a buffered_tensor, got {buf}")
    if buf.type.storage is not storage_kind.smem:
        refuse(AssertionError, f"{name} views buffers in shared memory, got {buf}")
    return row_as_it_is(buf, semantic)


def _extents(name: str, shape) -> tuple[int, ...]:
    shape = (shape, ) if is_int(shape) else tuple(shape)
    if not shape:
        refuse(ValueError, f"{name}: shape must have at least one dimension")
    for extent in shape:
        positive_int(f"{name}: each extent of shape", extent)
    return shape


def _bytes(dtype: tl.dtype) -> int:
    return max(1, dtype.primitive_bitwidth // 8)
