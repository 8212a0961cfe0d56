"""Numbers of elements that indices pick along one dimension of a buffer of several.

Input: an op with a tile of indices, one for each element of the tile, and the dimension. Output: flat tiles. For example, of a
buffer of 64 x 32 along dimension 0:

    numbered(here, indices, (64, 32), 0)        element (i, j) is number 32 * indices[i, j] + j of the buffer; -1 outside of it
"""

from __future__ import annotations

from math import prod

from ...ir import I1, I32, Op, Tensor, Value, like
from .cta_accesses import as_i32
from .reading import Here


def numbered(here: Here, indices: Value, extents: tuple[int, ...], axis: int) -> tuple[list[Op], Value]:
    """The ops, and the number of each element in row-major order of the buffer. Extents are powers of two, as MLIR has tiles."""
    shape, flat = indices.type.shape, Tensor(I32, (prod(indices.type.shape), ))
    ops: list[Op] = []

    def step(name: str, *args, type_=flat) -> Value:
        found = here.value(type_)
        ops.append(here.op(name, *args, results=(found, )))
        return found

    def constant(number: int) -> Value:
        made, found = here.number(number, flat)
        ops.append(made)
        return found

    index = here.value(flat)
    ops += as_i32(here, indices, index)
    element, place = step("make_range", flat, 0, flat.shape[0]), step("mul", index, constant(prod(extents[axis + 1:])))
    for dim, extent in enumerate(shape):
        if dim != axis and extent > 1:
            coordinate = step("urem", step("udiv", element, constant(prod(shape[dim + 1:]))), constant(extent))
            place = step("add", place, step("mul", coordinate, constant(prod(extents[dim + 1:]))))
    inside = step("icmpULT", index, constant(extents[axis]), type_=like(flat, I1))
    return ops, step("select", inside, place, constant(-1))


def in_a_row(here: Here, *tiles: Value | None) -> tuple[list[Op], list[Value | None]]:
    """The ops, and the elements of tiles in row-major order."""
    ops, found = [], []
    for tile in tiles:
        flat = tile and here.value(Tensor(tile.type.element, (tile.type.numel, )))
        ops += [here.op("reshape", tile, flat.type.shape, False, results=(flat, ))] if tile else []
        found.append(flat)
    return ops, found
