"""A linear map under construction: the coordinates that the bits of register, lane and warp stand for, one after the other.

Input: tiles of which each new bit doubles what is covered, and the shape of a tile. Output: a `Linear` layout. For example:

    built = Bases(2)
    built.tile("lanes", (8, 4), (1, 0))       lanes: (0, 1) (0, 2) (1, 0) (2, 0) (4, 0)
    built.fitted((8, 4))                      the map for a tile of 8 x 4
"""

from __future__ import annotations

from .layouts import Linear

Basis = tuple[int, ...]


class Bases:
    """The bases so far: `covered` is the box that they fill."""

    def __init__(self, rank: int, registers=(), lanes=(), warps=(), covered=None):
        self.registers, self.lanes, self.warps = list(registers), list(lanes), list(warps)
        self.covered = list(covered or (1, ) * rank)

    def tile(self, kind: str, extents, order) -> None:
        """Repeat what there is `extents` times, the dimension `order[0]` first, over new bits of `kind`."""
        for axis in order:
            for _ in range(extents[axis].bit_length() - 1):
                getattr(self, kind).append(tuple(self.covered[axis] if i == axis else 0 for i in range(len(extents))))
                self.covered[axis] *= 2

    def along(self, kind: str, axis: int, extent: int) -> None:
        """Repeat what there is `extent` times along one dimension, over new bits of `kind`."""
        self.tile(kind, tuple(extent if i == axis else 1 for i in range(len(self.covered))), (axis, ))

    def fitted(self, shape: tuple[int, ...], order=None) -> Linear:
        """The map for a tile: bases beyond the tile become zero; positions that are not covered are repeated in registers, the
        fastest dimension first."""
        for axis in order or tuple(reversed(range(len(shape)))):
            self.along("registers", axis, max(1, shape[axis] // self.covered[axis]))

        def inside(basis: Basis) -> Basis:
            return basis if all(step < extent for step, extent in zip(basis, shape)) else (0, ) * len(shape)

        return Linear(*(tuple(map(inside, bases)) for bases in (self.registers, self.lanes, self.warps)), tuple(shape))
