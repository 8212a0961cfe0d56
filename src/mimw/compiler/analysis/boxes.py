"""Pointers into shared memory that are a box of their buffer, element for element in its order.

Input: a tile of pointers and its family (`pointers`). Output: a `Box`, or None. For example, in a buffer of 128 x 64:

    local_ptr(tile, [64 + rows, columns])       Box(None, offsets=(64, 0), shape=(64, 64))
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ...ir import Op, Tensor, Value
from .affine import Affine, affine
from .mask_runs import divisor
from .pointers import Family
from .uses import Uses

_MOST_POSITIONS = 16  # of a box whose place is known at run time only, where each is a view of its own


@dataclass(frozen=True)
class Box:
    """Buffer `index` of an array (None: not an array), and in it `shape` elements from `offsets` on. All are scalars."""

    index: Affine | None
    offsets: tuple[Affine, ...]
    shape: tuple[int, ...]


def pointed_box(uses: Uses, pointer: Value, family: Family) -> Box | None:
    """The box that a tile of pointers is. None if it is none, or one whose position is not known well enough."""
    if not isinstance(pointer.type, Tensor):
        return None
    stored = family.buffer.type
    have = (stored.count, *stored.shape) if stored.count else stored.shape
    indices = _indices(uses, uses.definition.get(pointer), family)
    tile = pointer.type.shape
    outer = len(have) - len(tile)
    if indices is None or len(have) != len(indices) or outer < 0:
        return None
    starts, extents = [], []
    for dim, index in enumerate(indices):
        axis = dim - outer
        wanted = tuple(int(other == axis and tile[other] > 1) for other in range(len(tile)))
        if index is None or index.strides != wanted:
            return None
        starts.append(Affine(index.constant, index.terms))
        extents.append(tile[axis] if axis >= 0 else 1)
    number = None
    if stored.count:
        if extents.pop(0) != 1:
            return None
        number = starts.pop(0)
    if not _is_part(uses, starts, extents, stored.shape, stored.element.bytes):
        return None
    return Box(number, tuple(starts), tuple(extents))


def _is_part(uses: Uses, starts: list[Affine], extents: list[int], shape: tuple[int, ...], size: int) -> bool:
    """True if the box is the whole buffer, or a part that Triton can express as a view: the part starts at a multiple of its
    extents, moves at run time along one dimension at most, and cuts no swizzle that the buffer may have."""
    if any(start.constant % extent or start.constant < 0 or start.constant + extent > room
           for start, extent, room in zip(starts, extents, shape)):
        return False
    moving = [dim for dim, start in enumerate(starts) if start.terms]
    if any(factor * divisor(uses, value) % extents[dim] for dim in moving for value, factor in starts[dim].terms):
        return False
    if tuple(extents) == shape:
        return not moving
    if moving:
        (first, *more), others = moving, [dim for dim in range(len(shape)) if dim != moving[0]]
        if more or any(extents[dim] != shape[dim] for dim in others) or shape[first] // extents[first] > _MOST_POSITIONS:
            return False
    rows = prod(extents[:-1])
    return (extents[-1] == shape[-1] or extents[-1] * size % 128 == 0) and (rows % 8 == 0 or tuple(extents[:-1]) == shape[:-1])


def _indices(uses: Uses, op: Op | None, family: Family) -> list[Affine | None] | None:
    """The index along each dimension, for pointers that come straight from a `local_ptr`; None for other pointers."""
    while op is not None and op.name == "bitcast":
        op = uses.definition.get(op.value)
    if op is None or op.name != "local_ptr":
        return None
    above = []
    for index, _ in reversed(family.above[op]):
        scalar = affine(uses, index)
        rank = len(op.result.type.shape)
        above.append(Affine(scalar.constant, scalar.terms, (0, ) * rank))
    if op.indices is None:
        shape = op.shape
        return above + [Affine(0, (), tuple(int(axis == dim and shape[dim] > 1) for axis in range(len(shape))))
                        for dim in range(len(shape))]
    return above + [affine(uses, index) for index in op.indices]
