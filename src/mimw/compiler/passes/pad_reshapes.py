"""Reshapes of tiles with odd extents: elements keep their row-major order, and what is idle comes to lie behind each new extent.

Input: a `reshape` of the program as the author has it. Output: a reshape of the padded tile, with a gather where that alone would
put idle elements among the author's. For example:

    reshape %x : fp32[12, 48] to [12, 3, 16]        reshape : fp32[16, 64] to [16, 4, 16]
    reshape %x : fp32[6, 20] to [120]               reshape to [256], gather of 0..19, 32..51, .., reshape to [128]
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from ...ir import I32, Builder, Op, Program, Tensor, Value
from ...ir.extents import is_odd, padded
from ..analysis import uses_of
from .pad_ends import Padding, end

Shape = tuple[int, ...]


@end("reshape")
def reshape(padding: Padding, op: Op) -> None:
    """A flat tile that only reductions of it alone take needs no order: `reduce` takes it as it was."""
    parts = tuple(_parts(op.value.type.shape, op.result.type.shape))
    moved = [axis for axis, part in enumerate(parts) if any(is_odd(extents[1:]) for extents in part)]
    if moved and op in reduced_alone(padding.program):
        padding.flattened[op.result] = op.value
        return
    writer = padding.writer
    tile = writer.now(op.value)
    if moved:
        tile = writer.reshaped(tile, tuple(prod(padded(before)) for before, _ in parts))
    for axis in moved:
        tile = _in_order(padding, tile, axis, *parts[axis])
    writer.env[op.result] = writer.reshaped(tile, padded(op.result.type.shape))


def _parts(before: Shape, behind: Shape) -> Iterator[tuple[Shape, Shape]]:
    """Extents on both sides that have the same product, as few at a time as there are, without ones."""
    left, right = ([extent for extent in shape if extent > 1] for shape in (before, behind))
    while left:
        one, other = [left.pop(0)], [right.pop(0)]
        while prod(one) != prod(other):
            shorter, rest = (one, left) if prod(one) < prod(other) else (other, right)
            shorter.append(rest.pop(0))
        yield tuple(one), tuple(other)


def _in_order(padding: Padding, tile: Value, axis: int, before: Shape, behind: Shape) -> Value:
    """The tile of which an axis has the padded extents `before`, in row-major order, with the padded extents `behind` there."""
    writer = padding.writer
    places = writer.emit("make_range", (Tensor(I32, (prod(padded(behind)), )), 0, prod(padded(behind))))
    number = renumbered(writer, places, padded(behind), behind)
    place = renumbered(writer, writer.by_constant("minsi", number, prod(before) - 1), before, padded(before))
    shape = (*tile.type.shape[:axis], prod(padded(behind)), *tile.type.shape[axis + 1:])
    return padding.gathered(tile, padding.along(place, shape, axis), axis)


def renumbered(writer: Builder, number: Value, extents: Shape, strides_of: Shape) -> Value:
    """Row-major numbers in tiles of `extents` as those of the same elements in tiles of the extents `strides_of`."""
    total, inner, stride = None, 1, 1
    for extent, other in reversed(tuple(zip(extents, strides_of))):
        part = number if inner == 1 else writer.by_constant("sdiv", number, inner)
        part = part if inner * extent == prod(extents) else writer.by_constant("srem", part, extent)
        part = writer.scaled(part, stride)
        total = part if total is None else writer.emit("add", (total, part))
        inner, stride = inner * extent, stride * other
    return total


def reduced_alone(program: Program) -> frozenset[Op]:
    """The reshapes whose flat result nothing takes but reductions of one tile."""
    return program.kept(_reduced_alone)


def _reduced_alone(program: Program) -> frozenset[Op]:
    uses = uses_of(program)
    return frozenset(op for op in program.named("reshape") if len(op.result.type.shape) == 1
                     and all(use.op.name == "reduce" and len(use.op.values) == 1 for use in uses.of(op.result)))
