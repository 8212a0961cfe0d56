"""Layouts that an author requests for a tile.

Input: an op that pins, frees, compares or shows a layout. Output: the layout of its result, and of its operand:

    %y = require_layout %x layout        %y in `layout`, stronger than any other but a tensor core's; %x is wanted in it
"""

from __future__ import annotations

from ....ir.core import Op, Value
from ..explain import at
from ..pinned import resolved
from ..tiles import Choice, Strength, Tiles
from .registry import rule


@rule("require")
def require_layout(op: Op, tiles: Tiles) -> None:
    """Give the result the layout that the author requires; a hint (`pin` false) has the strength of any other layout of its
    kind."""
    layout = resolved(op.layout, op, op.value.type.shape, tiles)
    tiles.want_named(op, "value", layout)
    strength = Strength.PINNED if op.pin else Strength.SLICE
    tiles.give(op.result, Choice(layout, strength, op, f"{at(op.site)} require_layout asks for it"))


@rule("release")
def release_layout(op: Op, tiles: Tiles) -> None:
    """The default of the shape: the conversion to it is free to be moved or merged."""
    chosen = tiles.default(op.result.type.shape)
    tiles.want_named(op, "value", chosen.layout)
    tiles.give(op.result, chosen)


@rule("compare")
def assert_same_layout(op: Op, tiles: Tiles) -> None:
    """Keep the tiles as they are; resolve a layout that the author names for the warps of this task."""
    if not isinstance(op.rhs, Value):
        tiles.compared[op] = resolved(op.rhs, op, op.lhs.type.shape, tiles)
    as_it_is(op, tiles)


@rule("pin")
def as_it_is(op: Op, tiles: Tiles) -> None:
    """Each operand in the layout that it has."""
    for index, value in tiles.operands(op):
        tiles.want(op, index, tiles[value].layout)
