"""`tle.gpu.copy` with a tile of row numbers: rows of a matrix in global memory, picked one by one, to or from a buffer.

Input: arguments of `tle.gpu.copy` whose first offset is a tile. Output: ops of copies, complete where the call stands. An example:

    tle.gpu.copy(desc, tile, [64, 64], [rows, 0])                                 tma_fetch_rows %desc, %rows, %0, %tile
    tle.gpu.copy(x, tile, [64, 64], [rows, 0], stride=N, extents=[M, N])          %p = async_load .., %tile, %inside; commit; wait
    tle.gpu.copy(tile, desc, [64, 64], [rows, 0])                                 fence 'async_shared'; tma_scatter; tma_store_wait

The first way is TMA, the second cp.async: by TMA no thread needs addresses, cp.async has more bytes under way at a time.
"""

from __future__ import annotations

import triton.language.core as tl

from ...numbers import is_int
from ...refuse import refuse
from ...tlx.row_copies import check_row_descriptor, row_numbers
from .pointers import local_ptr, logical_shape

_NAME = "tle.gpu.copy"


def picks_rows(offsets) -> bool:
    """True if the first offset is a tile of row numbers."""
    return isinstance(offsets, (tuple, list)) and len(offsets) == 2 and isinstance(offsets[0], tl.tensor) and \
        offsets[0].type.is_block()


def by_descriptor(loads: bool, buffer, desc, box: tuple[int, ...], offsets, semantic) -> None:
    """Rows of a tensor descriptor of a block of one row."""
    check_row_descriptor(ValueError, _NAME, desc)
    rows, column = row_numbers(ValueError, _NAME, offsets[0], semantic), column_of(offsets[1], semantic)
    wanted = int(rows.type.shape[0]), int(desc.block_shape[1])
    if not wanted == logical_shape(buffer) == box:
        refuse(ValueError, f"{_NAME}: {wanted[0]} row numbers and rows of {wanted[1]} elements make {list(wanted)}; the buffer "
                           f"{list(logical_shape(buffer))} and shape {list(box)} must be equal to that")
    if desc.dtype != buffer.dtype:
        refuse(ValueError, f"{_NAME}: the descriptor is of {desc.dtype}, the buffer of {buffer.dtype}")
    record = semantic.builder.record
    if loads:
        record("tma_fetch_rows", desc.handle, rows.handle, column.handle, buffer.handle)
        return
    record("fence", "async_shared")
    record("tma_scatter", desc.handle, rows.handle, column.handle, buffer.handle)
    record("tma_store_wait", 0)


def by_base(loads: bool, buffer, base, box: tuple[int, ...], offsets, stride, extents, start_and_wait, semantic) -> None:
    """Rows that begin `stride` elements apart behind a pointer; `start_and_wait` copies pointers with a mask by cp.async."""
    if not isinstance(base, tl.tensor) or base.type.is_block():
        refuse(ValueError, f"{_NAME}: rows are picked from one pointer to the first element of row 0, got {base.type}")
    if base.dtype.element_ty != buffer.dtype:
        refuse(ValueError, f"{_NAME}: the pointer is to {base.dtype.element_ty}, the buffer is of {buffer.dtype}")
    rows, column = row_numbers(ValueError, _NAME, offsets[0], semantic), column_of(offsets[1], semantic)
    whole = logical_shape(buffer)
    if len(whole) != 2 or whole != box or int(rows.type.shape[0]) != box[0]:
        refuse(ValueError, f"{_NAME}: {rows.type.shape[0]} row numbers; the buffer {list(whole)} and shape {list(box)} must be "
                           "equal, and have as many rows")
    down = semantic.expand_dims(rows, 1)
    across = semantic.add(semantic.expand_dims(semantic.arange(0, box[1]), 0), column, False)
    places = semantic.add(semantic.mul(semantic.cast(down, tl.int64), _number("stride", stride, semantic), False), across, False)
    places, pointers = semantic.broadcast_impl_shape(places, list(box)), semantic.broadcast_impl_shape(
        semantic.splat(base, [1, 1]), list(box))
    pointers, inside = semantic.add(pointers, places, False), _inside((down, across), extents, box, semantic)
    if loads:
        start_and_wait(pointers, inside, buffer, semantic)
        return
    tl.store(pointers, tl.load(local_ptr(buffer, _semantic=semantic), _semantic=semantic), inside, _semantic=semantic)


def column_of(column, semantic) -> tl.tensor:
    """The first column as an i32 scalar."""
    return semantic.cast(_number("the first column", column, semantic), tl.int32)


def _number(what: str, value, semantic) -> tl.tensor:
    if is_int(value):
        return semantic.to_tensor(value)
    if not isinstance(value, tl.tensor) or value.type.is_block() or not value.dtype.is_int():
        refuse(ValueError, f"{_NAME}: {what} must be an int or an integer scalar, got "
                           f"{value.type if isinstance(value, tl.tensor) else value}")
    return value


def _inside(places, extents, box: tuple[int, ...], semantic):
    """A mask of the elements that lie in a matrix of these extents; None if the author gives no extents."""
    if extents is None:
        return None
    if not isinstance(extents, (tuple, list)) or len(extents) != 2:
        refuse(ValueError, f"{_NAME}: extents must be [rows, columns] of the matrix, either of which may be None, got {extents}")
    mask = None
    for what, place, extent in zip(("rows", "columns"), places, extents):
        if extent is None:
            continue
        extent = _number(f"the number of {what}", extent, semantic)
        here = semantic.and_(semantic.greater_equal(place, semantic.to_tensor(0)), semantic.less_than(place, extent))
        here = semantic.broadcast_impl_shape(here, list(box))
        mask = here if mask is None else semantic.and_(mask, here)
    return mask
