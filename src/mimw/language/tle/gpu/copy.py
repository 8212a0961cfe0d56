"""`tle.gpu.copy`: blocks between global and shared memory, by pointers or by tensor descriptors (TMA).

Input: the arguments of a kernel's call. Output: ops of copies, complete where the call stands. For example:

    tle.gpu.copy(x + at, row, [64])             %9 = async_load %7, %row, ..; async_commit; async_wait pending=0
    tle.gpu.copy(desc, tile, [64, 64], [i, j])  tma_fetch %desc, [%i, %j], %tile
    tle.gpu.copy(tile, desc, [64, 64], [i, j])  fence 'async_shared'; tma_store; tma_store_wait

Stores through pointers, and loads of a tile that has other extents than the array or holds booleans, are a `local_ptr`,
a plain load and a plain store.
"""

from __future__ import annotations

from math import prod

import triton.language.core as tl

from ....ir.extents import padded
from ...core import word
from ...refuse import refuse
from ...tlx import types as tlx
from ...tlx.arguments import bulk_policy, is_int
from . import copy_rows as rows
from .pointers import local_ptr, logical_shape


@word
def copy(src, dst, shape: tl.constexpr, offsets=None, barrier=None, stride=None, extents=None, eviction_policy: tl.constexpr = "",
         _semantic=None) -> None:
    """Copy the box [0:shape] of a buffer to or from global memory; which way, the operands say.

    args:      src, dst - one is an array in shared memory; the other a tile of pointers to global memory, of the array's shape
                          or of `shape` (extents of 1 are spread), or a tensor descriptor of a block of the array's shape and dtype
               shape    - compile-time ints, at most the array's extents; with a descriptor, its block
               offsets  - with a descriptor: the first element of the block, an int or i32 scalar a dimension, the last a
                          multiple of 16 bytes, and of a store none negative; of single rows of more dimensions the buffer has only
                          the last ones, as for `tlx.async_descriptor_load`. Loads read zeros outside the tensor, stores leave
                          those elements out.
                          Or [rows, column], where rows is a 1-D int32 tile: row i of the buffer is the matrix' row rows[i], from
                          `column` on, a multiple of 16 bytes. Then the other operand is a descriptor of a block [1, columns of the
                          buffer], and TMA copies the rows; or it is a pointer to element 0 of row 0, and cp.async copies them (to
                          global memory: an ordinary store). By TMA no thread computes addresses; cp.async may move more bytes a
                          second where that is what bounds the kernel (python -m benchmarks.gather measures both)
               barrier  - not offered by this release
               stride   - with rows and a pointer: elements from one row of the matrix to the next
               extents  - (opt) with rows and a pointer: [rows, columns] of the matrix, either may be None. What is outside reads
                          zeros, and is not stored; without, nothing may be outside. A descriptor knows its extents, and stores
                          by it take no negative numbers (`tlx.async_descriptor_scatter`)
               eviction_policy - "", or with a descriptor and a block "evict_first" or "evict_last": what L2 drops first, and last
    orders:    as if done at the call: what is read or written after it, in this partition, sees it. Between a pipe's acquire and
               commit a load into the slot is complete when the reader's wait returns.
    errors:    ValueError; with a descriptor IllegalCopy, as for `tlx.async_descriptor_load`, `_store`, `_gather` and `_scatter`
    lowers to: ttng.async_tma_copy_global_to_local, ttng.async_tma_copy_local_to_global; ttg.async_copy_global_to_local;
               tt.store; for rows of a descriptor as tlx.async_descriptor_gather and _scatter
    example:   tle.gpu.copy(desc, tile, [64, 64], [i * 64, 0])
    """
    _check_operands(src, dst, barrier)
    loads = isinstance(dst, tlx.buffered_tensor)
    buffer, other = (dst, src) if loads else (src, dst)
    described = isinstance(other, tl.tensor_descriptor_base)
    box = _checked_box(shape, buffer, len(other.block_shape) if described else 0)
    picked = rows.picks_rows(offsets)
    if (stride is not None) != (picked and not described) or extents is not None and stride is None:
        refuse(ValueError, "tle.gpu.copy: `stride`, and `extents` if need be, belong to rows that are picked from a pointer; a "
                           "descriptor knows them")
    if eviction_policy and (picked or not described):
        refuse(ValueError, "tle.gpu.copy: an `eviction_policy` belongs to a block of a tensor descriptor")
    if picked and described:
        rows.by_descriptor(loads, buffer, other, box, offsets, _semantic)
    elif picked:
        rows.by_base(loads, buffer, other, box, offsets, stride, extents, _start_and_wait, _semantic)
    elif described:
        _by_descriptor(loads, buffer, other, box, offsets, eviction_policy, _semantic)
    elif offsets is not None:
        refuse(ValueError, "tle.gpu.copy: `offsets` belong to a tensor descriptor; pointers say themselves where they point")
    else:
        _by_pointers(loads, buffer, other, box, _semantic)


def _check_operands(src, dst, barrier) -> None:
    buffers = [isinstance(operand, tlx.buffered_tensor) for operand in (src, dst)]
    if all(buffers):
        refuse(ValueError, "tle.gpu.copy: both operands are buffers; read the one with tl.load(local_ptr(..)) and store that")
    if not any(buffers):
        refuse(ValueError, "tle.gpu.copy: one operand must be a buffered_tensor (of tle.gpu.alloc, or a slot of one), got "
                           f"{_named(src)} and {_named(dst)}")
    buffer, other = (src, dst) if buffers[0] else (dst, src)
    if buffer.type.storage is not tlx.storage_kind.smem or buffer.type.num:
        refuse(ValueError, f"tle.gpu.copy: the buffer must be one array in shared memory, got {buffer}")
    pointers = isinstance(other, tl.tensor) and other.dtype.is_ptr()
    if not pointers and not isinstance(other, tl.tensor_descriptor_base):
        refuse(ValueError, "tle.gpu.copy: the operand besides the buffer must be pointers to global memory or a tensor descriptor, "
                           f"got {_named(other)}")
    if pointers and other.dtype.address_space == "shared":
        refuse(ValueError, "tle.gpu.copy: the pointers must point to global memory, these come from local_ptr")
    if barrier is not None:
        refuse(ValueError, "tle.gpu.copy: `barrier` is not offered; use a pipe, or tlx.async_descriptor_load")


def _named(operand) -> str:
    return str(operand.type) if isinstance(operand, tl.tensor) else str(operand)


def _checked_box(shape, buffer, rank: int) -> tuple[int, ...]:
    """The box; of the `rank` dimensions of a descriptor's block the first ones may be single, which the buffer lacks."""
    whole = logical_shape(buffer)
    if isinstance(shape, (tuple, list)) and len(shape) == rank > len(whole):
        whole = (*(1, ) * (rank - len(whole)), *whole)
    if not isinstance(shape, (tuple, list)) or not all(is_int(extent) and extent > 0 for extent in shape):
        refuse(ValueError, f"tle.gpu.copy: shape must be a list or tuple of positive compile-time ints, got {shape!r}")
    if len(shape) != len(whole) or any(extent > room for extent, room in zip(shape, whole)):
        refuse(ValueError, f"tle.gpu.copy: shape {list(shape)} is no box of the buffer's {list(whole)}")
    return tuple(shape)


# ---- tensor descriptors ---------------------------------------------------------------------------------------------------

def _by_descriptor(loads: bool, buffer, desc, box: tuple[int, ...], offsets, eviction: str, semantic) -> None:
    block, whole = tuple(desc.block_shape), logical_shape(buffer)
    if offsets is None:
        refuse(ValueError, "tle.gpu.copy: a tensor descriptor needs `offsets`, one a dimension")
    if not isinstance(offsets, (tuple, list)) or len(offsets) != len(block):
        refuse(ValueError, f"tle.gpu.copy: expected {len(block)} offsets for a descriptor of rank {len(block)}, got {offsets}")
    ones = (1, ) * (len(block) - len(whole))
    if block != (*ones, *whole) or box not in (block, whole):
        refuse(ValueError, f"tle.gpu.copy: the descriptor's block {list(block)}, the buffer {list(whole)} and shape {list(box)} "
                           "must be equal")
    if desc.dtype != buffer.dtype:
        refuse(ValueError, f"tle.gpu.copy: the descriptor is of {desc.dtype}, the buffer of {buffer.dtype}")
    places = tuple(_offset(offset, semantic) for offset in offsets)
    builder = semantic.builder
    policy = bulk_policy("tle.gpu.copy", "", eviction, semantic)
    if not loads:
        builder.record("fence", "async_shared")
        builder.record("tma_store", desc.handle, places, buffer.handle, policy, "")
        builder.record("tma_store_wait", 0)
        return
    builder.record("tma_fetch", desc.handle, places, buffer.handle, policy)


def _offset(offset, semantic):
    if is_int(offset):
        return semantic.builder.get_int32(offset)
    if not isinstance(offset, tl.tensor) or offset.type.is_block() or not offset.dtype.is_int():
        refuse(ValueError, f"tle.gpu.copy: each offset must be an int or an i32 scalar, got {_named(offset)}")
    return semantic.cast(offset, tl.int32).handle


# ---- pointers -------------------------------------------------------------------------------------------------------------

def _by_pointers(loads: bool, buffer, pointers, box: tuple[int, ...], semantic) -> None:
    whole = logical_shape(buffer)
    if pointers.dtype.element_ty != buffer.dtype:
        refuse(ValueError, f"tle.gpu.copy: the pointers are to {pointers.dtype.element_ty}, the buffer is of {buffer.dtype}")
    tile = _tile(pointers, whole, box)
    pointers = semantic.broadcast_impl_shape(pointers, list(tile)) if tile else pointers
    axes = [_along(tile, axis, semantic) for axis in range(len(tile))]
    mask = None
    for axis, extent in enumerate(box):
        if extent < tile[axis]:
            inside = semantic.less_than(axes[axis], extent)
            mask = inside if mask is None else semantic.and_(mask, inside)
    if loads and tile == whole and tile and buffer.dtype != tl.int1:
        _start_and_wait(pointers, mask, buffer, semantic)
        return
    inside = local_ptr(buffer, None if tile == whole else tuple(axes), _semantic=semantic)
    if not loads:
        tl.store(pointers, tl.load(inside, mask, _semantic=semantic), mask, _semantic=semantic)
        return
    # What is outside of the box may be anything, if it is the array's own: then the store is a plain one of the whole tile.
    own = all(extent <= room for extent, room in zip(tile, whole)) or len(tile) == 1
    tl.store(inside, tl.load(pointers, mask, _semantic=semantic), None if own else mask, _semantic=semantic)


def _start_and_wait(pointers, mask, buffer, semantic) -> None:
    """cp.async, one group, and the wait for it."""
    builder = semantic.builder
    policy, asked = builder.get_cache_policy("none", "evict_normal"), None if mask is None else mask.handle
    builder.record("async_load", pointers.handle, buffer.handle, asked, None, policy, False, of_copy=True)
    builder.record("async_commit", (), of_copy=True)
    builder.record("async_wait", 0, (), of_copy=True)


def _tile(pointers, whole: tuple[int, ...], box: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of the tile that moves: the array's, or the box's, both with powers of two."""
    have = tuple(pointers.type.shape) if pointers.type.is_block() else ()
    for wanted in (whole, box):
        room = padded(wanted)
        if len(have) == len(room) and all(extent in (1, whole) for extent, whole in zip(have, room)) and \
                (prod(have) == prod(room) or 1 in have):
            return room
    refuse(ValueError, f"tle.gpu.copy: the pointers have the shape {list(have)}; it must be the buffer's "
                       f"{list(whole)} or the box's "
                       f"{list(box)}")


def _along(tile: tuple[int, ...], axis: int, semantic):
    """The index along `axis` of each element of a tile."""
    numbers = semantic.arange(0, tile[axis])
    for other in range(len(tile)):
        if other != axis:
            numbers = semantic.expand_dims(numbers, other)
    return semantic.broadcast_impl_shape(numbers, list(tile))
