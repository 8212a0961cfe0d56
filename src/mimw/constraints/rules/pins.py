"""What an author says about the layout of a tile."""

from __future__ import annotations

from ...ir.core import Op, Value
from ..explain import at
from ..pinned import resolved
from ..tiles import Choice, Strength, Tiles
from .registry import rule


@rule("require_layout")
def require_layout(op: Op, tiles: Tiles) -> None:
    """That layout from here on; a hint (`pin` false) is as strong as any other layout of its kind."""
    value, layout, pin = op.args
    layout = resolved(layout, op, value.type.shape, tiles)
    tiles.want(op, 0, layout)
    strength = Strength.PINNED if pin else Strength.SLICE
    tiles.give(op.result, Choice(layout, strength, op, f"{at(op.site)} require_layout asks for it"))


@rule("release_layout")
def release_layout(op: Op, tiles: Tiles) -> None:
    """The default of the shape: the conversion to it is free to be moved or merged."""
    chosen = tiles.default(op.result.type.shape)
    tiles.want(op, 0, chosen.layout)
    tiles.give(op.result, chosen)


@rule("assert_same_layout")
def assert_same_layout(op: Op, tiles: Tiles) -> None:
    """As they are; a layout that is named is one for this task."""
    lhs, rhs = op.args
    if not isinstance(rhs, Value):
        tiles.compared[op] = resolved(rhs, op, lhs.type.shape, tiles)
    as_it_is(op, tiles)


@rule("pin")
def as_it_is(op: Op, tiles: Tiles) -> None:
    """Each operand in the layout that it has."""
    for index, value in tiles.operands(op):
        tiles.want(op, index, tiles[value].layout)
