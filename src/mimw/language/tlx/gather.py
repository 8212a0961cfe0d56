"""Indexed reads and writes of a buffer, and tiles of zeros.

Input: the arguments of a kernel's call. Output: ops `local_gather` and `local_scatter`; for zeros a `constant` in the
author's layout, or else a `splat`. For example:

    tlx.local_gather(tile, rows, 0)           local_gather %tile, %rows, axis=0 : fp16[64, 64]
    tlx.local_scatter(tile, x, rows, 0)       local_scatter %tile, %x, %rows, axis=0
"""

from __future__ import annotations

import triton.language.core as tl

from ...errors import KernelError
from ..core import word
from ..refuse import refuse
from .arguments import handle_of, is_int, positive_int, single_buffer
from .layouts import layout_encoding, shared_layout_encoding
from .local_mem import same_dtype
from .require import register_layout
from .types import async_token, buffered_tensor, storage_kind

__all__ = ["local_gather", "local_scatter", "zeros"]


@word
def local_gather(src, indices, axis: tl.constexpr, token=None, _semantic=None) -> tl.tensor:
    """Read elements of one buffer that a tile of indices picks: `result[i0, ..] = src[i0, .., indices[i0, ..], ..]`.

    args:      src     - one buffer in shared memory
               indices - integer tile of its rank: any extent along `axis`, elsewhere at most that of `src`
               axis    - the dimension that the indices run along; negative counts from the last
               token   - (opt) of `async_load_wait_group`: the read comes after that wait
    returns:   a tile of the shape of `indices` and the dtype of `src`
    errors:    KernelError for a `src` that is not one buffer, indices of another type, rank or extent, an axis that the
               buffer has not, or another token; AssertionError for another CTA's memory or tensor memory
    not:       checked at run time: an index out of range is undefined (the simulator refuses it)
    lowers to: ttg.local_gather
    example:   picked = tlx.local_gather(tile[0], rows, axis=0)
    """
    src = _shared("local_gather", "src", src, _semantic)
    axis, indices = _axis("local_gather", axis, src, _semantic), _indices("local_gather", indices, src, axis, _semantic)
    if token is not None and not isinstance(token, async_token):
        refuse(KernelError, f"local_gather: `token` must be an async_token, got {token}")
    handle = _semantic.builder.record("local_gather", src.handle, indices.handle, axis, handle_of(token)).results[0]
    return tl.tensor(handle, tl.block_type(src.dtype, list(indices.type.shape)))


@word
def local_scatter(dst, src, indices, axis: tl.constexpr, token=None, _semantic=None) -> None:
    """Write the elements of a tile where a tile of indices says: `dst[i0, .., indices[i0, ..], ..] = src[i0, ..]`.

    args:      dst     - one buffer in shared memory
               src     - tile of the dtype of `dst`
               indices - integer tile of the shape of `src`; elsewhere than along `axis` at most the extents of `dst`
               axis    - the dimension that the indices run along; negative counts from the last
               token   - (opt) of `async_load_wait_group`: the write comes after that wait
    errors:    KernelError and AssertionError as for local_gather, and KernelError for a `src` of another shape or dtype
    not:       ordered among equal indices: one of their values stays
    lowers to: ttg.local_scatter
    example:   tlx.local_scatter(tile[0], x, rows, axis=0)
    """
    dst = _shared("local_scatter", "dst", dst, _semantic)
    axis, indices = _axis("local_scatter", axis, dst, _semantic), _indices("local_scatter", indices, dst, axis, _semantic)
    if not isinstance(src, tl.tensor) or not src.type.is_block() or list(src.type.shape) != list(indices.type.shape):
        refuse(KernelError, f"local_scatter: `src` must be a block tensor of the shape of `indices`, "
                            f"{list(indices.type.shape)}, got {src.type if isinstance(src, tl.tensor) else src}")
    if token is not None and not isinstance(token, async_token):
        refuse(KernelError, f"local_scatter: `token` must be an async_token, got {token}")
    same_dtype("local_scatter", src, dst, _semantic)
    _semantic.builder.record("local_scatter", dst.handle, src.handle, indices.handle, axis, handle_of(token))


def _shared(name: str, parameter: str, buffer, semantic) -> buffered_tensor:
    if isinstance(buffer, buffered_tensor) and buffer.type.storage is not storage_kind.smem:
        refuse(AssertionError, f"{name}: `{parameter}` must be in shared memory (smem), but it is in {buffer.type.storage.value}",
               mend="load the tile with tlx.local_load, store it to a buffer in smem")
    return single_buffer(name, parameter, buffer, semantic)


def _axis(name: str, axis, buffer: buffered_tensor, semantic) -> int:
    rank = len(buffer.shape)
    if not is_int(axis) or not -rank <= axis < rank:
        refuse(KernelError, f"{name}: axis {axis} is not one of the {rank} dimensions of {buffer}")
    return axis % rank


def _indices(name: str, indices, buffer: buffered_tensor, axis: int, semantic) -> tl.tensor:
    if not isinstance(indices, tl.tensor) or not indices.type.is_block() or not indices.dtype.is_int():
        refuse(KernelError, f"{name}: `indices` must be a block tensor of integers, got "
                            f"{indices.type if isinstance(indices, tl.tensor) else indices}")
    shape = list(indices.type.shape)
    if len(shape) != len(buffer.shape):
        refuse(KernelError, f"{name}: the indices have shape {shape}, but {buffer} has rank {len(buffer.shape)}")
    for dim, (extent, room) in enumerate(zip(shape, buffer.shape, strict=True)):
        if dim != axis and extent > room:
            refuse(KernelError, f"{name}: the indices have extent {extent} along dimension {dim}, the buffer only {room}")
    return semantic.cast(indices, tl.int32)


@word
def zeros(shape: tl.constexpr, dtype: tl.constexpr, layout: tl.constexpr = None, _semantic=None) -> tl.tensor:
    """A tile of zeros.

    args:      shape  - its extents
               dtype  - its element type
               layout - (opt) a register layout to make it in, pinned; AssertionError for anything else
    errors:    ValueError for extents that are no ints > 0; AssertionError as said; TargetError, LayoutConflict and
               NotYet as of `require_layout`
    example:   acc = tlx.zeros((64, 64), tl.float32)
    """
    if layout is not None:
        if not isinstance(layout, layout_encoding) or isinstance(layout, shared_layout_encoding):
            refuse(AssertionError, f"zeros: `layout` must be a register layout, got {layout!r}")
    for extent in shape:
        positive_int("zeros: each extent of shape", extent)
    if layout is None:
        return _semantic.full(list(shape), 0, dtype)
    builder, type_ = _semantic.builder, tl.block_type(dtype, list(shape))
    handle = builder.record("constant", 0.0 if dtype.is_floating() else 0, type_.to_ir(builder),
                            layout=register_layout("zeros", layout, _semantic)).results[0]
    return tl.tensor(handle, type_)
