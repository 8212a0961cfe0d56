"""Accesses of global memory by pointers, and what observes a run, as text.

Input: an op. Output: its text, or a line. For example:

    masked_load %p, %m, fp_trunc(splat 0.0)     tl.load(p, mask=m, other=0.0)       Triton converts the 0.0 as the program does
    atomic_rmw FADD, %p, %x, true, ..           tl.atomic_add(p, x)
"""

from __future__ import annotations

from ....ir import Op, Value
from ....ir.types import element_of
from .rows import expression, statement, unwritten
from .shapes import narrow
from .texts import ATOM, Text, has_sign, reads_as, shape_of, type_name

_KINDS = {"ADD": "add", "FADD": "add", "AND": "and", "OR": "or", "XOR": "xor", "XCHG": "xchg", "MAX": "max", "UMAX": "max",
          "MIN": "min", "UMIN": "min"}
_ORDERS = {"ACQUIRE_RELEASE": "acq_rel", "ACQUIRE": "acquire", "RELEASE": "release", "RELAXED": "relaxed"}
_SCOPES = {"GPU": "gpu", "CTA": "cta", "SYSTEM": "sys"}


def member(one) -> str:
    """The name of a member of one of Triton's enumerations."""
    return str(getattr(one, "name", one)).rpartition(".")[2]


def hints(op: Op) -> str:
    """The arguments of a load or store that say how caches treat it."""
    policy = op.cache_policy
    if policy is None:
        return ""
    if policy[0] != "cache" or len(policy) != 3:
        raise unwritten(op, f"a cache policy {policy}")
    _, modifier, eviction = map(str, policy)
    text = "" if modifier == "none" else f', cache_modifier=".{modifier}"'
    return text + ("" if eviction == "evict_normal" else f', eviction_policy="{eviction}"')


def given(w, value: Value) -> Text:
    """A value that Triton spreads and converts to what a pointer points to: the bare number, if that gives the same."""
    op = w.inlining.inlined(value)
    source, made = value, element_of(value.type)
    if op is not None and op.name in ("fp_trunc", "fp_ext", "si_to_fp", "int_cast", "fp_to_si", "fp_to_fp"):
        source = op.value
    number = w.constant(narrow(w, source))
    if number is not None and reads_as(number.value, number.type) and _converts(op if source is not value else None, number, made):
        return w.alone(narrow(w, source))
    return w.typed(value)


def _converts(op: Op | None, number: Op, made) -> bool:
    """True if Triton's conversion of the number to `made` is that op, or none where there is none."""
    if op is None:
        return number.type == made
    if op.name == "int_cast":
        return number.type.name == "i32" and made.bits != 1 and bool(op.signed)
    if op.name == "fp_to_fp":
        return number.type.name == "fp32" and made.bits == 8 and member(op.rounding) == "RTNE"
    return {"fp_trunc": number.type.name == "fp32" and made.bits == 16, "fp_ext": made.name == "fp64",
            "si_to_fp": number.type.name == "i32", "fp_to_si": number.type.name == "fp32" and made.bits > 1}[op.name]


def beside_pointer(w, pointer: Value, value: Value) -> Value:
    """An operand of the pointers' shape, as narrow as Triton spreads it back to it."""
    found = narrow(w, value)
    return found if not shape_of(found.type) or len(shape_of(found.type)) == len(shape_of(pointer.type)) else value


@expression("load masked_load")
def _load(w, op: Op) -> Text:
    more = ""
    if op.name == "masked_load":
        if op.mask is None:
            raise unwritten(op, "it has no mask")
        more += f", mask={_mask(w, op.pointer, op.mask)}"
        if op.other is not None:
            more += f", other={given(w, op.other).code}"
    more += hints(op) + (", volatile=True" if op.is_volatile else "")
    pointer = w.text(op.pointer)
    return Text(f"tl.load({pointer.code}{more})", ATOM, pointer.signed)


def _mask(w, pointer: Value, mask: Value) -> str:
    found = beside_pointer(w, pointer, mask)
    if w.text(found).number:
        return w.text(found).code
    return w.code(found)


@statement("store masked_store")
def _store(w, op: Op) -> None:
    mask = f", mask={_mask(w, op.pointer, op.mask)}" if op.name == "masked_store" else ""
    value = beside_pointer(w, op.pointer, op.value)
    text = given(w, op.value)
    if not text.number and not w.text(value).number:
        text = w.typed(value)
    w.line(f"tl.store({w.code(op.pointer)}, {text.code}{mask}{hints(op)})")


# ---- atomics -------------------------------------------------------------------------------------------------------------

def ordered(op: Op, default: str) -> str:
    """The arguments `sem` and `scope` of an atomic, where they are not Triton's own."""
    order, scope = _ORDERS[member(op.order)], _SCOPES[member(op.scope)]
    return ("" if order == default else f', sem="{order}"') + ("" if scope == "gpu" else f', scope="{scope}"')


def only_where(w, op: Op) -> str:
    """The argument `mask` of an atomic; none where all elements take part."""
    if op.mask is None:
        return ""
    number = w.constant(narrow(w, op.mask))
    if number is not None and number.value:
        return ""
    return f", mask={_mask(w, op.pointer, op.mask)}"


@expression("atomic_rmw")
def _change(w, op: Op) -> Text:
    kind, pointer = member(op.kind), w.text(op.pointer)
    element = element_of(op.value.type)
    if kind not in _KINDS or element.is_float and kind not in ("FADD", "XCHG"):
        raise unwritten(op, f"Triton has no atomic {kind} of {element}")
    signed = {"MAX": True, "MIN": True, "UMAX": False, "UMIN": False}.get(kind)
    if signed is not None and pointer.signed is not signed:
        if element_of(op.pointer.type).space != "global":
            raise unwritten(op, "the buffer's elements have the other sign")
        pointer = Text(f"{pointer.inside(ATOM)}.to({type_name(element_of(op.pointer.type), signed)})", ATOM, signed)
    value = given(w, op.value)
    if not value.number:
        value = w.typed(beside_pointer(w, op.pointer, op.value))
    code = f"tl.atomic_{_KINDS[kind]}({pointer.code}, {value.code}{only_where(w, op)}{ordered(op, 'acq_rel')})"
    return Text(code, ATOM, pointer.signed)


@expression("atomic_cas")
def _exchange(w, op: Op) -> Text:
    new = w.alone(op.value)
    code = f"tl.atomic_cas({w.code(op.pointer)}, {w.alone(op.compare).code}, {new.code}{ordered(op, 'acq_rel')})"
    return Text(code, ATOM, new.signed)


@expression("atomic_load")
def _acquire(w, op: Op) -> Text:
    pointer = w.text(op.pointer)
    return Text(f"tl.atomic_load({pointer.code}{only_where(w, op)}{ordered(op, 'acquire')})", ATOM, pointer.signed)


@statement("atomic_store")
def _release(w, op: Op) -> None:
    w.line(f"tl.atomic_store({w.code(op.pointer)}, {given(w, op.value).code}{only_where(w, op)}{ordered(op, 'release')})")


@expression("atomic_poll")
def _poll(w, op: Op) -> Text:
    if isinstance(op.timeout, Value):
        raise unwritten(op, "it has a time limit")
    return Text(f"tl.atomic_poll({w.code(op.pointer)}, {given(w, op.expected).code}{ordered(op, 'acquire')})")


# ---- what observes -------------------------------------------------------------------------------------------------------

@statement("assert")
def _assertion(w, op: Op) -> None:
    w.line(f"tl.device_assert({w.alone(op.condition).code}, {str(op.message)!r})")


@statement("assume")
def _assumption(w, op: Op) -> None:
    w.line(f"tl.assume({w.code(op.condition)})")


@statement("print")
def _print(w, op: Op) -> None:
    texts = []
    for value, signed in zip(op.values, op.signed):
        texts.append(w.with_sign(w.typed(value), value.type, bool(signed) if has_sign(value.type) else None))
    prefix = op.prefix
    w.line(f"tl.device_print({', '.join([repr(prefix), *(text.code for text in texts)])}{', hex=True' if op.hex else ''})")


@statement("hint")
def _hint(w, op: Op) -> None:
    word = {"tt.divisibility": "multiple_of", "tt.contiguity": "max_contiguous", "tt.constancy": "max_constancy"}.get(op.attribute)
    if word is None:
        raise unwritten(op, f"a hint {op.attribute}")
    w.line(f"tl.{word}({w.code(op.value)}, {list(op.numbers)})")


__all__ = ["beside_pointer", "given", "hints", "member"]
