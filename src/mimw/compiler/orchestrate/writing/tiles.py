"""Tiles as text: numbers, ranges, and what changes a tile's shape.

Input: an op. Output: its text. For example:

    splat fp32[64], 0           tl.zeros([64], tl.float32)
    expand_dims %x, axis=1      x[:, None]
    trans %x, [1, 0]            x.T
"""

from __future__ import annotations

from ....ir import Op, Tensor
from ....ir.types import element_of
from .rows import expression, statement, unwritten
from .texts import ATOM, UNARY, Text, has_sign, listed, literal, type_name


@expression("constant")
def _constant(w, op: Op) -> Text:
    element = element_of(op.type)
    if isinstance(op.type, Tensor):
        if op.attrs.get("layout"):
            raise unwritten(op, "its layout is pinned")
        return _filled(op.type, literal(op.value, element), True if has_sign(element) else None)
    code = literal(op.value, element)
    return Text(code, UNARY if code.startswith("-") else ATOM, None, True)


def _filled(type_: Tensor, code: str, signed: bool | None) -> Text:
    element = type_name(type_.element, signed)
    if code in ("0", "0.0"):
        return Text(f"tl.zeros({listed(type_.shape)}, {element})", ATOM, signed)
    return Text(f"tl.full({listed(type_.shape)}, {code}, {element})", ATOM, signed)


@expression("splat")
def _splat(w, op: Op) -> Text:
    number = w.constant(op.value)
    if number is not None:
        return _filled(op.result.type, literal(number.value, number.type), True if has_sign(number.type) else None)
    text = w.text(op.value)
    return Text(f"tl.broadcast_to({text.code}, {listed(op.result.type.shape)})", ATOM, text.signed)


@expression("broadcast")
def _broadcast(w, op: Op) -> Text:
    text = w.text(op.value)
    return Text(f"tl.broadcast_to({text.code}, {listed(op.result.type.shape)})", ATOM, text.signed)


@expression("expand_dims")
def _expanded(w, op: Op) -> Text:
    text, rank = w.typed(op.value), len(op.result.type.shape)
    axes = ", ".join("None" if axis == op.axis % rank else ":" for axis in range(rank))
    return Text(f"{text.inside(ATOM)}[{axes}]", ATOM, text.signed)


@expression("make_range")
def _range(w, op: Op) -> Text:
    return Text(f"tl.arange({op.start}, {op.end})", ATOM, True)


@expression("reshape")
def _reshaped(w, op: Op) -> Text:
    text = w.typed(op.value)
    if not isinstance(op.value.type, Tensor):
        raise unwritten(op, "it makes a tile of a number")
    return Text(f"{text.inside(ATOM)}.reshape({listed(op.shape)})", ATOM, text.signed)


@expression("trans")
def _transposed(w, op: Op) -> Text:
    text = w.typed(op.value)
    if tuple(op.order) == (1, 0):
        return Text(f"{text.inside(ATOM)}.T", ATOM, text.signed)
    return Text(f"tl.permute({text.code}, {listed(op.order)})", ATOM, text.signed)


@expression("join")
def _joined(w, op: Op) -> Text:
    one, other = w.typed(op.lhs), w.typed(op.rhs)
    return Text(f"tl.join({one.code}, {other.code})", ATOM, one.signed)


@statement("split")
def _split(w, op: Op) -> None:
    text, names = w.typed(op.value), []
    for value, hint in zip(op.results, ("even", "odd")):
        names.append(w.names.fresh(value.name or hint))
        w.texts[value] = Text(names[-1], signed=text.signed)
    w.line(f"{', '.join(names)} = tl.split({text.code})")


@expression("unsplat")
def _only(w, op: Op) -> Text:
    text = w.typed(op.value)
    return Text(f"tl.item({text.code})", ATOM, text.signed)


@expression("gather")
def _gathered(w, op: Op) -> Text:
    text = w.typed(op.source)
    return Text(f"tl.gather({text.code}, {w.code(op.indices)}, {op.axis})", ATOM, text.signed)


@expression("histogram")
def _histogram(w, op: Op) -> Text:
    mask = "" if op.mask is None else f", mask={w.code(op.mask)}"
    return Text(f"tl.histogram({w.code(op.value)}, {op.bins}{mask})", ATOM, True)


@expression("get_program_id")
def _program_id(w, op: Op) -> Text:
    return Text(f"tl.program_id({op.axis})", ATOM, True)


@expression("get_num_programs")
def _programs(w, op: Op) -> Text:
    return Text(f"tl.num_programs({op.axis})", ATOM, True)
