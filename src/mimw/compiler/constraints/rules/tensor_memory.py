"""Tiles that come from tensor memory, or go there.

Input: a load or store of tensor memory. Output: the layout in which the hardware hands lanes to warps:

    %x = tmem_load %acc        fp32[128, 64] on 4 warps: row r in lane r mod 32 of warp r / 32; what is computed of it follows
"""

from __future__ import annotations

from ....errors import LayoutConflict
from ....ir.core import Op
from ....ir.layouts import TensorMemoryTile
from ....ir.tensor_memory import tile_of
from ..explain import at
from ..pinned import resolved
from ..tiles import Choice, Strength, Tiles
from .registry import rule


@rule("tensor_memory")
def tensor_memory(op: Op, tiles: Tiles) -> None:
    """Use the layout of the hardware; the author may pin another layout on a load, to which the tile is then converted."""
    layout = _tile(op, tiles)
    for index, _ in tiles.operands(op):
        tiles.want(op, index, layout)
    for result in tiles.results(op):
        pinned = op.attrs.get("layout")
        if pinned is None:
            tiles.give(result, Choice(layout, Strength.MMA, op, f"{at(op.site)} local_load reads tensor memory"))
        else:
            tiles.give(result, Choice(resolved(pinned, op, result.type.shape, tiles), Strength.PINNED, op,
                                      f"{at(op.site)} local_load pins it"))


def _tile(op: Op, tiles: Tiles) -> TensorMemoryTile:
    layout = tile_of(op.buffer.type, tiles.num_warps, in_pairs=tiles.program.in_pairs)
    if layout is None:
        raise LayoutConflict("tensor memory is reached by whole warpgroups of 4 warps, each warp its quarter of the 128 lanes; "
                             f"this task has {tiles.num_warps}.", op.site, hint="give the task num_warps=4 or 8.")
    return layout
