"""Register layouts as linear maps from bits to coordinates, so that any two can be compared and printed.

Input: a layout and the shape of a tile. Output: a `Linear` with the coordinates that each bit of register, lane and
warp stands for:

    linear_of(Blocked((1, 2), (4, 8), (4, 1), (1, 0)), (16, 16)).registers       [(0, 1)]

The maps are those of Triton's `toLinearLayout`: a layout smaller than the tile repeats over it in further registers,
one that is larger replicates.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

from .layouts import Blocked, DotOperand, Linear, Mma, RegisterLayout, Slice

Basis = tuple[int, ...]


@lru_cache(maxsize=4096)
def linear_of(layout: RegisterLayout, shape: tuple[int, ...]) -> Linear | None:
    """The linear map of `layout` for a tile of `shape`; None for a kind that has none here (operands of blocked dots)."""
    match layout:
        case Linear():
            return _fitted(_Map(len(shape), layout.registers, layout.lanes, layout.warps, layout.shape), shape)
        case Blocked(size, threads, warps, order):
            built = _Map(len(shape))
            for kind, extents in (("registers", size), ("lanes", threads), ("warps", warps)):
                built.tile(kind, extents, order)
            return _fitted(built, shape, order)
        case Mma(warps, (_, columns, _)):
            built = _Map(2)
            built.tile("registers", (1, 2), (1, 0))
            built.tile("lanes", (8, 4), (1, 0))
            built.tile("registers", (2, columns // 8), (0, 1))
            built.tile("warps", warps, (0, 1))
            return _fitted(built, shape)
        case DotOperand(0, Mma(warps, _), k_width) if k_width:
            built = _Map(2)
            built.tile("registers", (1, k_width), (1, 0))
            built.tile("lanes", (8, 4), (1, 0))
            built.tile("registers", (2, 2), (0, 1))
            built.tile("warps", (warps[0], 1), (0, 1))
            built.warps += [(0, 0)] * (warps[1].bit_length() - 1)
            return _fitted(built, shape)
        case Slice(axis, parent):
            whole = linear_of(parent, (*shape[:axis], 1, *shape[axis:]))
            return None if whole is None else _sliced(whole, axis)
    return None


class _Map:
    """A map under construction: `covered` is the box that its bases fill."""

    def __init__(self, rank: int, registers=(), lanes=(), warps=(), covered=None):
        self.registers, self.lanes, self.warps = list(registers), list(lanes), list(warps)
        self.covered = list(covered or (1, ) * rank)

    def tile(self, kind: str, extents, order) -> None:
        """Repeat what there is `extents` times, the dimension `order[0]` first, over new bits of `kind`."""
        for axis in order:
            for _ in range(extents[axis].bit_length() - 1):
                getattr(self, kind).append(tuple(self.covered[axis] if i == axis else 0 for i in range(len(extents))))
                self.covered[axis] *= 2


def _fitted(built: _Map, shape: tuple[int, ...], order=None) -> Linear:
    """Fit bases to a tile: bases beyond the tile become zero; positions that are not covered are repeated in registers, the
    fastest dimension first."""
    order = order or tuple(reversed(range(len(shape))))
    for axis in order:
        while built.covered[axis] < shape[axis]:
            built.tile("registers", tuple(2 if i == axis else 1 for i in range(len(shape))), (axis, ))

    def inside(basis: Basis) -> Basis:
        return basis if all(step < extent for step, extent in zip(basis, shape)) else (0, ) * len(shape)

    return Linear(*(tuple(map(inside, bases)) for bases in (built.registers, built.lanes, built.warps)), tuple(shape))


def _sliced(whole: Linear, axis: int) -> Linear:
    """The layout without one dimension; registers that only move along that dimension go."""

    def drop(basis: Basis) -> Basis:
        return basis[:axis] + basis[axis + 1:]

    return Linear(tuple(drop(basis) for basis in whole.registers if any(drop(basis))), tuple(map(drop, whole.lanes)),
                  tuple(map(drop, whole.warps)), drop(whole.shape))


def coordinates(position: int, shape: tuple[int, ...]) -> Basis:
    """The coordinates of a row-major position in a tile."""
    found = []
    for extent in reversed(shape):
        position, step = divmod(position, extent)
        found.append(step)
    return tuple(reversed(found))


def positions(bases: tuple[Basis, ...], shape: tuple[int, ...]) -> list[int]:
    """The row-major position in the tile that each basis steps to."""
    strides = [prod(shape[axis + 1:]) for axis in range(len(shape))]
    return [sum(step * stride for step, stride in zip(basis, strides)) for basis in bases]
