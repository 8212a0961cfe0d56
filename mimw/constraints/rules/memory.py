"""Tiles that come from somewhere or go to global memory."""

from __future__ import annotations

from ...ir.core import Op
from ..explain import at
from ..pinned import resolved
from ..tiles import Choice, Strength, Tiles
from .registry import rule


@rule("memory")
def memory(op: Op, tiles: Tiles) -> None:
    """Everything in the default of its shape; Triton's coalesce pass knows the strides and improves on it."""
    for index, value in tiles.operands(op):
        tiles.want(op, index, tiles.default(value.type.shape).layout)
    for result in tiles.results(op):
        tiles.give(result, tiles.default(result.type.shape))


@rule("once")
def once(op: Op, tiles: Tiles) -> None:
    """The default of a flat tile: thread t holds element t of every round, or a copy of an earlier one's."""
    memory(op, tiles)


@rule("free")
def free(op: Op, tiles: Tiles) -> None:
    """The layout that the author pinned on the op (attrs: layout), else the default of the shape."""
    pinned = op.attrs.get("layout")
    for result in tiles.results(op):
        if pinned is None:
            tiles.give(result, tiles.default(result.type.shape))
        else:
            layout = resolved(pinned, op, result.type.shape, tiles)
            tiles.give(result, Choice(layout, Strength.PINNED, op, f"{at(op.site)} {op.name} pins it"))
