"""Tensor memory as arithmetic: how many columns a buffer takes, and how a tile of it is spread over a task's threads.

Input: a buffer's type, a number of warps. Output: columns, a layout. For example:

    columns_of(Buffer(fp16, (128, 64), 2, "tmem"))          32 columns for each of the two buffers
    tile_of(Buffer(fp32, (128, 64), 0, "tmem"), 4)          lane = row mod 32, warp = row / 32, a thread holds a whole row

Sources: PTX ISA, "Tensor Memory" (128 lanes of 512 columns of 32 bits a CTA; warp w of a warpgroup reaches lanes 32 w to 32 w +
31), "tcgen05.ld" (shapes 32x32b and 16x32bx2), "Scale factor layouts". The layouts are those of Triton's `compute_tmem_reg_layout`
(tests/ir/test_tensor_memory.py compares them on a grid of shapes, types and warps).
"""

from __future__ import annotations

from .layouts import TensorMemory, TensorMemoryTile
from .types import Buffer

LANES, COLUMNS, COLUMN_BYTES = 128, 512, 4
ROWS = (64, 128)                # of a buffer: M of one instruction
SMALLEST = 32                   # columns of an allocation, which is a power of two: PTX ISA, tcgen05.alloc
_WARPGROUP = 4
_SCALE_ROWS, _SCALE_COLUMNS = 32, 4     # of one column of a table of scales


def holds_scales(type_: Buffer) -> bool:
    """True for a table of block scales: a buffer of 8-bit integers."""
    return type_.element.name == "i8"


def columns_of(type_: Buffer) -> int:
    """The columns of 32 bits that one buffer takes."""
    rows, columns = type_.shape
    if holds_scales(type_):
        return -(-rows // _SCALE_ROWS) * -(-columns // _SCALE_COLUMNS)
    return -(-columns * type_.element.bytes // COLUMN_BYTES)


def layout_of(type_: Buffer) -> TensorMemory:
    """How an allocation of that type lies; its slices keep the layout."""
    return TensorMemory(*type_.shape, holds_scales(type_))


def tile_of(type_: Buffer, num_warps: int) -> TensorMemoryTile | None:
    """How the tile of a buffer is spread over the threads of `num_warps` warps; None if so many warps cannot reach it."""
    if num_warps < _WARPGROUP or num_warps & (num_warps - 1):
        return None
    rows, columns = type_.shape
    bits = _bases(1, columns, 1)
    if holds_scales(type_):
        packed, free = bits[:2], _bases(_SCALE_ROWS, rows, 0) + bits[2:]
        lanes, warps = _bases(1, min(rows, _SCALE_ROWS), 0), [(0, 0), (0, 0)]
    else:
        per_column = max(1, COLUMN_BYTES // type_.element.bytes)
        packed, free = bits[:per_column.bit_length() - 1], bits[per_column.bit_length() - 1:]
        quarter = rows // _WARPGROUP
        lanes, warps = _bases(1, quarter, 0), _bases(quarter, rows, 0)
    more = (num_warps // _WARPGROUP).bit_length() - 1
    across = free[len(free) - more:] if more <= len(free) else free
    free = free[:len(free) - len(across)]
    warps += across + [(0, 0)] * (more - len(across))
    while len(lanes) < 5:
        lanes.append(free.pop() if free and not holds_scales(type_) else (0, 0))
    return TensorMemoryTile(tuple(packed + free), tuple(lanes), tuple(warps), (rows, columns))


def _bases(first: int, end: int, axis: int) -> list[tuple[int, int]]:
    """The coordinates first, 2 first, ... below `end` along an axis."""
    found = []
    while first < end:
        found.append((first, 0) if axis == 0 else (0, first))
        first *= 2
    return found
