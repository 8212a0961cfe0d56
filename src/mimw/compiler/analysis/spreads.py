"""The small tile, or the number, that a tile is a spread of, and the axes along which it can differ from element to element.

Input: the uses of a program, and a tile. Output: its `Spread`. For example:

    scales[:, None] broadcast to 64 x 128       core scales, its axis 0 is axis 0 of the tile: it varies along axis 0 alone
    a splat of a number                         core the number: it varies along none

`in_shape` writes the core as a tile of a shape in which it can be computed with, before it is spread.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...ir import Builder, Site, Tensor, Value, like
from .uses import Uses


@dataclass(frozen=True)
class Spread:
    """A tile as a spread of `core`, whose axes are those of the tile that `axes` names, in order."""

    core: Value
    axes: tuple[int, ...] = ()

    @property
    def varies(self) -> frozenset[int]:
        """The axes of the tile along which its elements may differ."""
        shape = self.core.type.shape if isinstance(self.core.type, Tensor) else ()
        return frozenset(axis for axis, extent in zip(self.axes, shape) if extent > 1)


def spread(uses: Uses, value: Value) -> Spread:
    """The smallest tile or number of which a tile is a spread; itself if it is none."""
    if not isinstance(value.type, Tensor):
        return Spread(value)
    op = uses.definition.get(value)
    if op is not None and op.name == "splat":
        return Spread(op.value)
    if op is not None and op.name == "broadcast" and len(op.value.type.shape) == len(value.type.shape):
        return spread(uses, op.value)
    if op is not None and op.name == "expand_dims":
        inner = spread(uses, op.value)
        return Spread(inner.core, tuple(axis + (axis >= op.axis) for axis in inner.axes))
    return Spread(value, tuple(range(len(value.type.shape))))


def extents(varies: frozenset[int], shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of a tile that varies along some axes alone."""
    return tuple(extent if axis in varies else 1 for axis, extent in enumerate(shape))


def in_shape(b: Builder, one: Spread, shape: tuple[int, ...], site: Site) -> Value:
    """The core as a tile of `shape`, in which it may still be spread."""
    if not isinstance(one.core.type, Tensor):
        return b.emit("splat", (Tensor(one.core.type, shape), one.core), site)
    tile = one.core
    for axis in range(len(shape)):
        if axis not in one.axes:
            tile = b.emit("expand_dims", (tile, axis), site)
    return tile if tile.type.shape == shape else b.emit("broadcast", (tile, shape), site)


def spread_to(b: Builder, value: Value, shape: tuple[int, ...], result: Value, site: Site) -> None:
    """A number, or a tile with extents of 1, as a tile of `shape`: the value `result`."""
    if isinstance(value.type, Tensor):
        b.emit("broadcast", (value, shape), site, results=(result, ))
    else:
        b.emit("splat", (like(result.type, value.type), value), site, results=(result, ))
