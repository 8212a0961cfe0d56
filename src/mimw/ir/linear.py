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

from .bases import Bases, Basis
from .layouts import AmdMfma, AmdWmma, Blocked, DotOperand, Linear, Mma, RegisterLayout, Slice
from .matrix_core_maps import accumulator, operand


@lru_cache(maxsize=4096)
def linear_of(layout: RegisterLayout, shape: tuple[int, ...]) -> Linear | None:
    """The linear map of `layout` for a tile of `shape`; None for a kind that has none here (operands of blocked dots)."""
    match layout:
        case Linear():
            return Bases(len(shape), layout.registers, layout.lanes, layout.warps, layout.shape).fitted(shape)
        case Blocked(size, threads, warps, order):
            built = Bases(len(shape))
            for kind, extents in (("registers", size), ("lanes", threads), ("warps", warps)):
                built.tile(kind, extents, order)
            return built.fitted(shape, order)
        case Mma(warps, (_, columns, _)):
            built = Bases(2)
            built.tile("registers", (1, 2), (1, 0))
            built.tile("lanes", (8, 4), (1, 0))
            built.tile("registers", (2, columns // 8), (0, 1))
            built.tile("warps", warps, (0, 1))
            return built.fitted(shape)
        case DotOperand(0, Mma(warps, _), k_width) if k_width:
            built = Bases(2)
            built.tile("registers", (1, k_width), (1, 0))
            built.tile("lanes", (8, 4), (1, 0))
            built.tile("registers", (2, 2), (0, 1))
            built.tile("warps", (warps[0], 1), (0, 1))
            built.warps += [(0, 0)] * (warps[1].bit_length() - 1)
            return built.fitted(shape)
        case AmdMfma() | AmdWmma():
            return accumulator(layout, shape)
        case DotOperand(index, AmdMfma() | AmdWmma() as parent, k_width) if k_width:
            return operand(index, parent, k_width, shape)
        case Slice(axis, parent):
            whole = linear_of(parent, (*shape[:axis], 1, *shape[axis:]))
            return None if whole is None else _sliced(whole, axis)
    return None


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
