"""Tensor descriptors as text: made in a kernel or by the host, and Triton's accesses by them.

Input: an op. Output: its text, or a line. For example:

    descriptor_load %a, [%m, 0]         a.load([m, 0])
    %a_desc_1 of the parameters         a_desc.shape[0]
"""

from __future__ import annotations

from ....ir import I32, Descriptor, Op, Program, Value
from .memory import hints, member
from .rows import expression, statement, unwritten
from .texts import ATOM, Text, has_sign, literal, type_name


def pieces(program: Program) -> dict[Value, tuple[Value, str]]:
    """Parameters that are part of a descriptor which the host gives, each with the descriptor and its place: extents, strides."""
    found: dict[Value, tuple[Value, str]] = {}
    for param in program.params:
        whole = next(one for one in program.params if one.path == param.path)
        if whole is not param and isinstance(whole.value.type, Descriptor):
            number = [one for one in program.params if one.path == param.path].index(param) - 1
            rank = len(whole.value.type.shape)
            found[param.value] = whole.value, f"shape[{number}]" if number < rank else f"strides[{number - rank}]"
    return found


def offsets(w, values) -> str:
    """A list of i32 numbers."""
    return "[" + ", ".join(number(w, value) for value in values) + "]"


def number(w, value: Value) -> str:
    """An i32 number where Triton takes constants of 32 bits and scalars alike."""
    op = w.constant(value)
    if op is not None and op.type == I32:
        return literal(op.value, op.type)
    return w.code(value)


@expression("make_tensor_descriptor")
def _made(w, op: Op) -> Text:
    if op.attrs.get("by_pointers") or op.attrs.get("by_mover"):
        raise unwritten(op, "the compiler made it")
    return Text(f"tl.make_tensor_descriptor({_tensor(w, op, tuple(op.block), bool(op.signed))})", ATOM, bool(op.signed))


@expression("fill_descriptor_slot")
def _filled(w, op: Op) -> Text:
    type_ = op.attrs["type"]
    slot = "None" if op.slot is None else w.code(op.slot)
    return Text(f"tlx.make_tensor_descriptor({slot}, {_tensor(w, op, type_.shape, type_.signed)})", ATOM, type_.signed)


@expression("view_descriptor_slot")
def _seen(w, op: Op) -> Text:
    type_ = op.attrs["type"]
    element = type_name(type_.element, type_.signed)
    return Text(f"tlx.reinterpret_tensor_descriptor({w.code(op.slot)}, {list(type_.shape)}, {element})", ATOM, type_.signed)


def _tensor(w, op: Op, block: tuple[int, ...], signed: bool) -> str:
    """The arguments that say which tensor a descriptor is of."""
    padding = {"PAD_ZERO": "", "PAD_NAN": ', padding_option="nan"'}.get(member(op.padding))
    base, last = w.text(op.base), w.constant(op.strides[-1])
    if padding is None or last is None or last.value != 1:
        raise unwritten(op, "its last stride is not the number 1" if padding is not None else f"padding {op.padding}")
    if has_sign(op.base.type.pointee) and base.signed is not signed:
        base = Text(f"{base.inside(ATOM)}.to({type_name(op.base.type, signed)})")
    strides = ", ".join(_stride(w, value) for value in op.strides)
    return f"{base.code}, {offsets(w, op.shape)}, [{strides}], {list(block)}{padding}"


def _stride(w, value: Value) -> str:
    """A stride, of which Triton makes 64 bits."""
    found = w.constant(value)
    if found is not None:
        return literal(found.value, found.type)
    op = w.inlining.inlined(value)
    if op is not None and op.name == "int_cast" and op.signed and not w.text(op.value).number:
        return w.with_sign(w.text(op.value), op.value.type, True).code
    return w.code(value)


@expression("descriptor_load")
def _load(w, op: Op) -> Text:
    return Text(f"{w.code(op.descriptor)}.load({offsets(w, op.offsets)}{hints(op)})", ATOM, op.descriptor.type.signed)


@statement("descriptor_store")
def _store(w, op: Op) -> None:
    w.line(f"{w.code(op.descriptor)}.store({offsets(w, op.offsets)}, {w.code(op.value)})")


@statement("descriptor_reduce")
def _reduce(w, op: Op) -> None:
    kind = member(op.kind).lower()
    if kind not in ("add", "min", "max", "and", "or", "xor"):
        raise unwritten(op, f"Triton has no {kind}")
    w.line(f"{w.code(op.descriptor)}.atomic_{kind}({offsets(w, op.offsets)}, {w.code(op.value)})")


@expression("descriptor_gather")
def _gather(w, op: Op) -> Text:
    return Text(f"{w.code(op.descriptor)}.gather({w.code(op.rows)}, {number(w, op.column)})", ATOM, op.descriptor.type.signed)


@statement("descriptor_scatter")
def _scatter(w, op: Op) -> None:
    w.line(f"{w.code(op.descriptor)}.scatter({w.code(op.value)}, {w.code(op.rows)}, {number(w, op.column)})")
