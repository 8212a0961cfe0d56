"""Boxes of tensors on a GPU: picked by `gather`, put in by `gather` and `select`.

Input: an op `dsa_extract_slice`, `dsa_insert_slice` or `dsa_extract_element`. Output: its result, by ops that Triton has:

    dsa_extract_slice %x, [%i], [32], [2]       gather (reshape %x, [64]), %i + 2 * j
"""

from __future__ import annotations

from math import prod

from ...ir import I1, I32, Op, Scalar, Tensor, Value, like
from ...ir.types import element_of
from .dsa_places import Places

_BYTE = Scalar("i8")


def extracted_slice(places: Places, op: Op) -> Value:
    """The elements offsets + j * strides."""
    writer, site = places.writer, op.site
    indices = _at(places, places.grid(op.sizes, site), op)
    picked = _gathered(places, writer.now(op.value), places.positions(indices, op.value.type.shape, site), op)
    return writer.reshaped(picked, op.sizes, site)


def inserted_slice(places: Places, op: Op) -> Value:
    """The tensor, with each element of the box taken from `part`."""
    writer, site, shape = places.writer, op.site, op.value.type.shape
    inside, indices = None, []
    for axis, (offset, size, stride) in enumerate(zip(writer.now(op.offsets), op.sizes, op.strides)):
        minus = -offset if isinstance(offset, int) else writer.emit("sub", (writer.constant(0, I32, site), offset), site)
        distance = places.plus(places.along(shape, axis, site), minus, site)
        tests = [("icmpSGE", distance, 0), ("icmpSLT", distance, size * stride)]
        if stride > 1:
            tests.append(("icmpEQ", writer.by_constant("srem", distance, stride, site), 0))
            distance = writer.by_constant("sdiv", distance, stride, site)
        for test, value, bound in tests:
            found = writer.by_constant(test, value, bound, site)
            inside = found if inside is None else writer.emit("and", (inside, found), site)
        indices.append(distance)
    where = places.positions(tuple(indices), op.sizes, site)
    flat = writer.reshaped(inside, where.type.shape, site)
    where = writer.emit("select", (flat, where, writer.constant(0, where.type, site)), site)
    copies = writer.reshaped(_gathered(places, writer.now(op.part), where, op), shape, site)
    return writer.emit("select", (inside, copies, writer.now(op.value)), site)


def extracted_element(places: Places, op: Op) -> Value:
    """The element at `indices`, as a scalar."""
    writer, site, total = places.writer, op.site, 0
    for index, step in zip(writer.now(op.indices), _steps(op.value.type.shape)):
        total = places.plus(total, places.times(index, step, site), site)
    total = writer.constant(total, I32, site) if isinstance(total, int) else total
    picked = _gathered(places, writer.now(op.value), writer.emit("splat", (Tensor(I32, (1, )), total), site), op)
    return writer.emit("unsplat", (picked, ), site)


def _at(places: Places, indices: tuple[Value, ...], op: Op) -> tuple[Value, ...]:
    offsets = places.writer.now(op.offsets)
    return tuple(places.plus(places.times(index, stride, op.site), offset, op.site)
                 for index, offset, stride in zip(indices, offsets, op.strides))


def _steps(shape: tuple[int, ...]) -> list[int]:
    return [prod(shape[axis + 1:]) for axis in range(len(shape))]


def _gathered(places: Places, source: Value, where: Value, op: Op) -> Value:
    """The elements of a tensor at flat positions; truth values go as bytes."""
    writer, site, element = places.writer, op.site, element_of(source.type)
    if element == I1:
        source = writer.emit("int_cast", (source, like(source.type, _BYTE), False), site)
    flat = writer.reshaped(source, (prod(source.type.shape), ), site)
    picked = writer.emit("gather", (flat, where, 0), site)
    return writer.by_constant("icmpNE", picked, 0, site) if element == I1 else picked
