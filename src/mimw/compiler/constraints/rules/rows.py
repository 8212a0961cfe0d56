"""Tiles of row numbers, for copies of rows that they pick.

Input: an op with an operand `rows`. Output: the layout in which the chip's copies take the row numbers:

    tma_gather %map %rows ..        i32[128] on 4 warps
        sm_100a                     slice(axis 0 of blocked(each (1, 4), threads (32, 1), warps (1, 4)))
        sm_90a                      blocked(each (1,), threads (32,), warps (4,))
"""

from __future__ import annotations

from ....ir.core import Op
from ....ir.layouts import Blocked, RegisterLayout, Slice
from ..tiles import Tiles
from .registry import rule


@rule("rows")
def rows(op: Op, tiles: Tiles) -> None:
    """The row numbers as the copies want them; a tile that is stored in any layout; one that is loaded in its shape's default."""
    tiles.want_named(op, "rows", _of_rows(tiles))
    for result in tiles.results(op):
        tiles.give(result, tiles.default(result.type.shape))


def _of_rows(tiles: Tiles) -> RegisterLayout:
    """An instruction of one warp copies four rows (PTX ISA, .tile::gather4): four neighbours in a thread, the same in all lanes,
    and warps share out the rest. Where an instruction copies one row, each lane holds one, or more, of its own."""
    if tiles.target.has("gather4"):
        return Slice(0, Blocked((1, 4), (tiles.warp_size, 1), (1, tiles.num_warps), (1, 0)))
    return Blocked((1, ), (tiles.warp_size, ), (tiles.num_warps, ), (0, ))
