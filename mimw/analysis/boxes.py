"""Pointers into shared memory that are a box of their buffer, element for element in its order."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ..ir import Op, Tensor, Value
from .affine import Affine, affine
from .pointers import Family
from .uses import Uses


@dataclass(frozen=True)
class Box:
    """Buffer `index` of an array (None: not an array), and in it `shape` elements from `offsets` on."""

    index: Value | int | None
    offsets: tuple[int, ...]
    shape: tuple[int, ...]


def pointed_box(uses: Uses, pointer: Value, family: Family) -> Box | None:
    """The box that a tile of pointers is. None if it is none, or one whose position is not known well enough."""
    if not isinstance(pointer.type, Tensor):
        return None
    stored = family.buffer.type
    have = (stored.count, *stored.shape) if stored.count else stored.shape
    indices = _indices(uses, uses.definition.get(pointer), family)
    if indices is None or len(have) != len(indices):
        return None
    tile = pointer.type.shape
    outer = len(have) - len(tile)
    if outer < 0:
        return None
    starts, extents = [], []
    for dim, index in enumerate(indices):
        axis = dim - outer
        wanted = tuple(int(other == axis and tile[other] > 1) for other in range(len(tile)))
        if index is None or index.strides != wanted:
            return None
        starts.append(index)
        extents.append(tile[axis] if axis >= 0 else 1)
    number = None
    if stored.count:
        if extents[0] != 1:
            return None
        number = _number(starts.pop(0))
        extents.pop(0)
        if number is None:
            return None
    if any(start.terms or start.constant < 0 or start.constant + extent > room or start.constant % extent
           for start, extent, room in zip(starts, extents, stored.shape)):
        return None
    offsets = tuple(start.constant for start in starts)
    if tuple(extents) != stored.shape and not _sliceable(extents, stored.shape, stored.element.bytes):
        return None
    return Box(number, offsets, tuple(extents))


def _sliceable(extents: list[int], shape: tuple[int, ...], size: int) -> bool:
    """Whether a slice cuts no swizzle that the buffer may have: whole rows or 128 bytes of them, and 8 rows at a time."""
    rows = prod(extents[:-1])
    return (extents[-1] == shape[-1] or extents[-1] * size % 128 == 0) and (rows % 8 == 0 or tuple(extents[:-1]) == shape[:-1])


def _number(index: Affine) -> Value | int | None:
    if not index.terms:
        return index.constant
    if index.constant == 0 and len(index.terms) == 1 and index.terms[0][1] == 1:
        return index.terms[0][0]
    return None


def _indices(uses: Uses, op: Op | None, family: Family) -> list[Affine | None] | None:
    """What each dimension's index is, for pointers straight from a `local_ptr`."""
    while op is not None and op.name == "bitcast":
        op = uses.definition.get(op.args[0])
    if op is None or op.name != "local_ptr":
        return None
    above = []
    for index, _ in reversed(family.above[op]):
        scalar = affine(uses, index)
        rank = len(op.result.type.shape)
        above.append(Affine(scalar.constant, scalar.terms, (0, ) * rank))
    if op.args[1] is None:
        shape = op.args[2]
        return above + [Affine(0, (), tuple(int(axis == dim and shape[dim] > 1) for axis in range(len(shape))))
                        for dim in range(len(shape))]
    return above + [affine(uses, index) for index in op.args[1]]
