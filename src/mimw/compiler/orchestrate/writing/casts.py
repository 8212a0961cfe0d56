"""Conversions as text, each `.to(type)`: written only where Triton makes the very same conversion of it.

Input: an op. Output: its text. For example:

    fp_trunc %x, fp16               x.to(tl.float16)
    int_cast %m, i64, signed=False  m.to(tl.uint32).to(tl.int64)        Triton extends by the sign that a number has
    bitcast %x, i32                 x.to(tl.int32, bitcast=True)
"""

from __future__ import annotations

from ....ir import Op, Pointer
from ....ir.types import element_of
from .rows import expression, unwritten
from .texts import ATOM, Text, has_sign, type_name

_FP8 = ("fp8e5", "fp8e4nv", "fp8e4b8", "fp8e5b16")
_UNSIGNED_USES = ("udiv", "urem", "lshr", "minui", "maxui", "ui_to_fp", "umulhi", "icmpULE", "icmpULT", "icmpUGE", "icmpUGT")


def wanted_sign(w, op: Op) -> bool:
    """The sign to give an integer that may have either: what its uses ask for."""
    uses = [use.op for use in w.inlining.used(op.result)]
    return not any(one.name in _UNSIGNED_USES or one.name == "int_cast" and not one.signed
                   and element_of(one.type).bits > element_of(op.result.type).bits for one in uses)


def to(text: Text, element, signed: bool | None, more: str = "") -> Text:
    return Text(f"{text.inside(ATOM)}.to({type_name(element, signed)}{more})", ATOM, signed)


@expression("int_cast")
def _integer(w, op: Op) -> Text:
    source, made = element_of(op.value.type), element_of(op.type)
    if source == made:
        return w.text(op.value)
    if made.bits == 1:
        raise unwritten(op, "Triton compares with 0 to make a boolean")
    text = w.typed(op.value)
    if made.bits > source.bits:
        if source.bits == 1 and op.signed:
            raise unwritten(op, "Triton's booleans have no sign")
        text = w.with_sign(text, op.value.type, bool(op.signed))
    return to(text, made, wanted_sign(w, op))


@expression("si_to_fp ui_to_fp")
def _to_float(w, op: Op) -> Text:
    source, made = element_of(op.value.type), element_of(op.type)
    if made.name in _FP8 or source.bits == 1 and op.name == "si_to_fp":
        raise unwritten(op, f"Triton has no such conversion of {source} to {made}")
    return to(w.with_sign(w.typed(op.value), op.value.type, op.name == "si_to_fp"), made, None)


@expression("fp_to_si fp_to_ui")
def _to_integer(w, op: Op) -> Text:
    source, made = element_of(op.value.type), element_of(op.type)
    if source.name not in ("fp32", "fp64") or made.bits == 1:
        raise unwritten(op, f"Triton has no such conversion of {source} to {made}")
    return to(w.typed(op.value), made, op.name == "fp_to_si")


@expression("fp_trunc fp_ext")
def _float(w, op: Op) -> Text:
    source, made = element_of(op.value.type), element_of(op.type)
    narrower = made.bits < source.bits
    if narrower != (op.name == "fp_trunc") or source.bits == made.bits or {source.name, made.name} & {*_FP8, "fp8e4b15"}:
        raise unwritten(op, f"Triton converts {source} to {made} otherwise")
    if source.bits == 16 and made.name != "fp32":
        raise unwritten(op, f"Triton converts {source} to {made} by way of fp32")
    return to(w.typed(op.value), made, None)


@expression("fp_to_fp")
def _rounded(w, op: Op) -> Text:
    source, made = element_of(op.value.type), element_of(op.type)
    if source == made:
        return w.text(op.value)
    mode = None if op.rounding is None else str(getattr(op.rounding, "name", op.rounding)).rpartition(".")[2].upper()
    halves = {source.name, made.name} == {"fp16", "bf16"}
    narrower, eight = made.bits < source.bits, bool({source.name, made.name} & set(_FP8))
    if halves and mode == "RTNE" or eight and mode == ("RTNE" if narrower else None):
        return to(w.typed(op.value), made, None)
    if narrower and mode == "RTZ":
        return to(w.typed(op.value), made, None, ', fp_downcast_rounding="rtz"')
    raise unwritten(op, f"Triton converts {source} to {made} otherwise")


@expression("bitcast")
def _same_bits(w, op: Op) -> Text:
    source, made = element_of(op.value.type), element_of(op.type)
    if source == made:
        return w.text(op.value)
    text = w.typed(op.value)
    signed = wanted_sign(w, op) if has_sign(op.type) or isinstance(made, Pointer) else None
    if isinstance(made, Pointer):
        if made.space != "global" or not isinstance(source, Pointer):
            raise unwritten(op, "this pointer is not to global memory")
        return to(text, made, _pointee_sign(w, op))
    return to(text, made, signed, ", bitcast=True")


@expression("int_to_ptr")
def _pointer(w, op: Op) -> Text:
    made = element_of(op.type)
    if made.space != "global":
        raise unwritten(op, "this pointer is not to global memory")
    return to(w.typed(op.value), made, _pointee_sign(w, op))


@expression("ptr_to_int")
def _address(w, op: Op) -> Text:
    if element_of(op.type).bits != 64:
        raise unwritten(op, "an address has 64 bits")
    return to(w.typed(op.value), element_of(op.type), True)


def _pointee_sign(w, op: Op) -> bool | None:
    """The sign of what a pointer points to, as the atomic that uses it wants it."""
    element = element_of(op.result.type).pointee
    if not has_sign(element):
        return None
    kinds = {str(getattr(use.op.kind, "name", use.op.kind)) for use in w.inlining.used(op.result) if use.op.name == "atomic_rmw"}
    return not kinds & {"UMIN", "UMAX"}
