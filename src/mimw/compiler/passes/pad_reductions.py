"""Reductions and scans of tiles with odd extents, of which idle elements must be no part.

Input: a `reduce` or `scan` of the program as the author has it. Output: ops on padded tiles. For example:

    reduce %x               of `select within, %x, n`, with n the neutral element of what combines two
    reduce %x, %i by f      of %x, %i and a flag for each element, with f only where both flags are set

The flag is what there is for a function without a neutral element, such as that of `tl.argmax`: it is right for any function that
`tl.reduce` may be given, since a combination with an idle element is the other element.
"""

from __future__ import annotations

from dataclasses import replace
from math import isinf, isnan

from ...ir import I32, Block, Op, Tensor, Value
from ...ir.extents import is_odd
from ...ir.types import element_of, like
from .pad_ends import Padding, end

_NO_INFINITY = ("fp8e4nv", "fp8e4b8", "fp8e5b16", "fp8e4b15")


@end("reduce")
def reduce(padding: Padding, op: Op) -> None:
    """A tile that was made flat is reduced along its last axis until there is none left: in row-major order still."""
    value = padding.flattened.get(op.values[0])
    if value is None:
        _combined(padding, op, is_odd((op.values[0].type.shape[op.axis], )))
        return
    for axis in reversed(range(len(value.type.shape))):
        result = op.result if not axis else Value(Tensor(value.type.element, value.type.shape[:axis]))
        block = op.blocks[0] if not axis else _copied(op.blocks[0], {})
        step = Op(op.name, ((value, ), axis), (result, ), (block, ), op.attrs, op.site)
        _combined(padding, step, is_odd((value.type.shape[axis], )))
        value = result


@end("scan")
def scan(padding: Padding, op: Op) -> None:
    """Scans from the end alone come by idle elements, which lie behind the author's."""
    _combined(padding, op, bool(op.reverse) and is_odd((op.values[0].type.shape[op.axis], )))


def _combined(padding: Padding, op: Op, idle: bool) -> None:
    """A reduction or a scan; with `idle`, of which idle elements along the axis must not be part."""
    if not idle:
        padding.again(op)
        return
    axis = op.axis % len(op.values[0].type.shape)
    neutral = _neutral(op)
    if neutral is not None:
        padding.again(op, values=(padding.chosen(op.values[0], neutral, (axis, )), ))
    else:
        _with_flags(padding, op, axis)


def _neutral(op: Op) -> float | int | None:
    """The neutral element of the one op by which a reduction of one tile combines; None where there is none."""
    (block, ) = op.blocks
    if len(op.values) != 1 or len(block.ops) != 2 or set(block.ops[0].operands) != set(block.args):
        return None
    combining, element = block.ops[0], element_of(op.values[0].type)
    number = combining.row.neutral
    if isinstance(number, str):
        bits = element.bits
        return {"lowest": -(1 << bits - 1), "highest": (1 << bits - 1) - 1, "unsigned highest": (1 << bits) - 1}[number]
    if isinstance(number, float) and (isinf(number) or isnan(number)) and element.name in _NO_INFINITY:
        return None
    return number if block.yielded == combining.results else None


def _with_flags(padding: Padding, op: Op, axis: int) -> None:
    """The op with one more tile, a number for each element: 1 for the author's, 0 for idle ones."""
    writer = padding.writer
    shape = op.values[0].type.shape
    within = padding.within(shape, (axis, ))
    flags = writer.emit("int_cast", (within, like(within.type, I32), False))
    spare = Value(like(op.results[0].type, I32))
    flagged = replace(op, results=(*op.results, spare), blocks=(_flagged(padding, op.blocks[0]), ))
    padding.again(flagged, values=(*writer.now(op.values), flags))


def _flagged(padding: Padding, block: Block) -> Block:
    """The body of a reduction on elements with flags: an element whose flag is 0 gives way to the other."""
    writer, half = padding.writer, len(block.args) // 2
    left, right = block.args[:half], block.args[half:]
    here, there = Value(I32), Value(I32)
    outside = writer.open()
    for inner in block.ops[:-1]:
        writer.ops.append(inner)
    takes_left, takes_right = (writer.by_constant("icmpNE", flag, 0) for flag in (here, there))
    chosen = tuple(writer.emit("select", (takes_left, writer.emit("select", (takes_right, both, a)), b))
                   for both, a, b in zip(block.yielded, left, right))
    writer.emit("yield", ((*chosen, writer.emit("or", (here, there))), ))
    return Block((*left, here, *right, there), writer.close(outside))


def _copied(block: Block, known: dict[Value, Value]) -> Block:
    """The block with values of its own, for an op that stands twice."""

    def fresh(value: Value) -> Value:
        return known.setdefault(value, Value(value.type, value.name))

    def now(arg):
        return tuple(map(now, arg)) if isinstance(arg, tuple) else known.get(arg, arg) if isinstance(arg, Value) else arg

    args = tuple(map(fresh, block.args))
    ops = tuple(Op(op.name, now(op.args), tuple(map(fresh, op.results)), tuple(_copied(inner, known) for inner in op.blocks),
                   op.attrs, op.site) for op in block.ops)
    return Block(args, ops)
