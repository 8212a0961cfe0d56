"""Element-wise ops: all tiles in one layout, the strongest one.

Input: an op. Output: one layout for its tiles:

    %z = fadd %x %y        %x in a slice of an mma layout, %y in a default: all three in the slice
"""

from __future__ import annotations

from ....ir.core import Op
from ....ir.layouts import Blocked
from ..tiles import Strength, Tiles
from .registry import rule


@rule("same")
def same(op: Op, tiles: Tiles) -> None:
    """Operands and results in the layout of the strongest operand."""
    values = [value for _, value in tiles.operands(op)]
    for result in tiles.results(op):
        tiles.give(result, tiles.strongest(values) if values else tiles.default(result.type.shape))
    if values:
        chosen = tiles.strongest(values).layout
        for index, _ in tiles.operands(op):
            tiles.want(op, index, chosen)


@rule("scan")
def scan(op: Op, tiles: Tiles) -> None:
    """Like `same`, but Triton scans blocked tiles only: a tile that is part of another tile, or comes from a product, is
    converted."""
    values = [value for _, value in tiles.operands(op)]
    chosen = tiles.strongest(values)
    if not isinstance(chosen.layout, Blocked):
        chosen = tiles.default(values[0].type.shape)
    for result in tiles.results(op):
        tiles.give(result, chosen)
    for index, _ in tiles.operands(op):
        tiles.want(op, index, chosen.layout)


@rule("spread")
def broadcast(op: Op, tiles: Tiles) -> None:
    """`broadcast`: a tensor-core or pinned layout spreads along with the tile; any other is the default of the bigger shape."""
    for index, value in tiles.operands(op):
        choice = tiles[value]
        if choice.strength < Strength.SLICE_OF_MMA:
            choice = tiles.default(op.result.type.shape)
        tiles.give(op.result, choice)
        tiles.want(op, index, choice.layout)


@rule("none")
def none(op: Op, tiles: Tiles) -> None:
    """Accept any layout for the operands; the op has no results."""
