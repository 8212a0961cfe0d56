"""Arithmetic on numbers and tiles as text: operators, comparisons, functions of one element.

Input: an op. Output: its text. For example:

    sdiv %a, %b         a // b                          both read as signed; Triton rounds towards zero, as C does
    udiv %a, %b         a.to(tl.uint32) // b            where a is known to have a sign
    fmul %x, splat 2.0  x * 2.0                         a bare number takes the type of the tile beside it
"""

from __future__ import annotations

from ....ir import Op, Pointer, Value
from ....ir.types import element_of
from .rows import expression, unwritten
from .shapes import implicit, narrow
from .texts import AND, ATOM, COMPARE, OR, PRODUCT, SHIFT, SUM, UNARY, XOR, Text, has_sign, literal

_OPERATORS = {      # symbol, precedence, the sign that operands must have
    "add": ("+", SUM, None), "sub": ("-", SUM, None), "mul": ("*", PRODUCT, None), "sdiv": ("//", PRODUCT, True),
    "udiv": ("//", PRODUCT, False), "srem": ("%", PRODUCT, True), "urem": ("%", PRODUCT, False), "shl": ("<<", SHIFT, None),
    "ashr": (">>", SHIFT, True), "lshr": (">>", SHIFT, False), "and": ("&", AND, None), "or": ("|", OR, None),
    "xor": ("^", XOR, None), "fadd": ("+", SUM, None), "fsub": ("-", SUM, None), "fmul": ("*", PRODUCT, None),
    "fdiv": ("/", PRODUCT, None), "frem": ("%", PRODUCT, None)}
_COMPARISONS = {"SLE": ("<=", True), "SLT": ("<", True), "SGE": (">=", True), "SGT": (">", True), "ULE": ("<=", False),
                "ULT": ("<", False), "UGE": (">=", False), "UGT": (">", False), "EQ": ("==", None), "NE": ("!=", None),
                "OLT": ("<", None), "OGT": (">", None), "OLE": ("<=", None), "OGE": (">=", None), "OEQ": ("==", None),
                "UNE": ("!=", None)}
_TURNED = str.maketrans("<>", "><")
_OF_TWO = {"minsi": ("tl.minimum", True, ""), "minui": ("tl.minimum", False, ""), "maxsi": ("tl.maximum", True, ""),
           "maxui": ("tl.maximum", False, ""), "minnumf": ("tl.minimum", None, ""), "maxnumf": ("tl.maximum", None, ""),
           "minimumf": ("tl.minimum", None, ", propagate_nan=tl.PropagateNan.ALL"),
           "maximumf": ("tl.maximum", None, ", propagate_nan=tl.PropagateNan.ALL"), "precise_divf": ("tl.div_rn", None, ""),
           "umulhi": ("tl.umulhi", None, "")}
_OF_ONE = {"fabs": "tl.abs", "ceil": "tl.ceil", "floor": "tl.floor", "exp": "tl.exp", "exp2": "tl.exp2", "log": "tl.log",
           "log2": "tl.log2", "sin": "tl.sin", "cos": "tl.cos", "sqrt": "tl.sqrt", "precise_sqrt": "tl.sqrt_rn",
           "rsqrt": "tl.rsqrt", "erf": "tl.erf"}


def pair(w, lhs: Value, rhs: Value, signed: bool | None = None) -> tuple[Text, Text, bool | None]:
    """The texts of two operands that Triton brings to one shape and one type, and the sign of that type. At least one of them is a
    tensor, with the sign that is asked for."""
    lhs, rhs = implicit(w, lhs, rhs)
    one, other = w.text(lhs), w.text(rhs)
    if one.number and other.number:
        one = w.typed(lhs)
    one, other = (text if text.number else w.with_sign(text, value.type, signed) for text, value in ((one, lhs), (other, rhs)))
    return _of_one_type(w, (lhs, one), (rhs, other), signed)


def _of_one_type(w, first: tuple[Value, Text], second: tuple[Value, Text], signed: bool | None) -> tuple[Text, Text, bool | None]:
    """The texts of two operands, of which one may be a number that takes the other's type, and the sign of that type."""
    (lhs, one), (rhs, other) = first, second
    if one.number:
        one, sign = beside(w, lhs, other, signed), other.signed
    elif other.number:
        other, sign = beside(w, rhs, one, signed), one.signed
    else:
        sign = one.signed if one.signed is other.signed else None if None in (one.signed, other.signed) else False
    return one, other, sign


def beside(w, value: Value, other: Text, signed: bool | None) -> Text:
    """A number as a literal beside a tensor of its type; as a tensor where no literal does."""
    op = w.constant(value)
    found = literal(op.value, op.type, other.signed)
    if found is None:
        return w.with_sign(w.typed(value), op.type, signed)
    return Text(found, UNARY if found.startswith("-") else ATOM, other.signed, True)


@expression(" ".join(_OPERATORS))
def _operator(w, op: Op) -> Text:
    symbol, level, signed = _OPERATORS[op.name]
    element = element_of(op.result.type)
    if op.name in ("fdiv", "frem") and element.name not in ("fp32", "fp64"):
        raise unwritten(op, f"Triton divides no {element}")
    if op.name == "sub" and (found := _negated(w, op)) is not None:
        return found
    if op.name == "xor" and (found := _inverted(w, op)) is not None:
        return found
    if has_sign(op.result.type) is False and signed is not None and not element.is_float:
        if signed:
            raise unwritten(op, "Triton's booleans have no sign")
        signed = None
    one, other, sign = pair(w, op.lhs, op.rhs, signed)
    return Text(f"{one.inside(level)} {symbol} {other.inside(level + 1)}", level, sign)


def _negated(w, op: Op) -> Text | None:
    """`-x` for 0 - x of scalars: Triton makes no other constant of it."""
    zero = w.constant(op.lhs)
    if zero is None or zero.value != 0 or w.text(op.rhs).number or not has_sign(op.result.type):
        return None
    text = w.text(op.rhs)
    return Text(f"-{text.inside(UNARY)}", UNARY, text.signed)


def _inverted(w, op: Op) -> Text | None:
    """`~x` for x ^ -1."""
    ones = w.constant(narrow(w, op.rhs))
    if ones is None or literal(ones.value, ones.type) not in ("-1", "True") or w.text(op.lhs).number:
        return None
    text = w.text(op.lhs)
    return Text(f"~{text.inside(UNARY)}", UNARY, text.signed)


@expression(" ".join(f"icmp{one}" for one in _COMPARISONS if one[0] in "SUEN" and one != "UNE")
            + " " + " ".join(f"fcmp{one}" for one in _COMPARISONS if one[0] == "O" or one == "UNE"))
def _comparison(w, op: Op) -> Text:
    symbol, signed = _COMPARISONS[op.name[4:]]
    element = element_of(op.lhs.type)
    if getattr(element, "bits", 0) == 1:
        if signed:
            raise unwritten(op, "Triton's booleans have no sign")
        signed = None
    if isinstance(element, Pointer) and signed is not None:
        raise unwritten(op, "Triton has no order of pointers")
    one, other, _ = pair(w, op.lhs, op.rhs, signed)
    if one.number:      # as Triton has it: `0 < x` is `x > 0`
        one, other, symbol = other, one, symbol.translate(_TURNED)
    return Text(f"{one.inside(COMPARE + 1)} {symbol} {other.inside(COMPARE + 1)}", COMPARE)


@expression(" ".join(_OF_TWO))
def _of_two(w, op: Op) -> Text:
    word, signed, more = _OF_TWO[op.name]
    if op.name == "precise_divf" and element_of(op.result.type).name not in ("fp32", "fp64"):
        raise unwritten(op, f"Triton divides no {element_of(op.result.type)}")
    one, other, sign = pair(w, op.lhs, op.rhs, signed)
    return Text(f"{word}({one.code}, {other.code}{more})", ATOM, sign)


@expression(" ".join(_OF_ONE))
def _of_one(w, op: Op) -> Text:
    return Text(f"{_OF_ONE[op.name]}({w.code(op.value)})")


@expression("approx_divf")
def _approximate(w, op: Op) -> Text:
    one, other, _ = pair(w, op.lhs, op.rhs)
    return Text(f"tl.fdiv({one.code}, {other.code}, approx=True)")


@expression("fneg")
def _minus(w, op: Op) -> Text:
    return Text(f"-{w.code(op.value, UNARY)}", UNARY)


@expression("iabs")
def _absolute(w, op: Op) -> Text:
    text = w.with_sign(w.typed(op.value), op.value.type, True)
    return Text(f"tl.abs({text.code})", ATOM, True)


@expression("fma")
def _fused(w, op: Op) -> Text:
    return Text(f"tl.fma({w.code(op.x)}, {w.code(op.y)}, {w.code(op.z)})")


@expression("clampf")
def _clamped(w, op: Op) -> Text:
    value, low, high = implicit(w, op.value, op.low, op.high)
    texts = [w.typed(value), *(beside(w, one, w.text(value), None) if w.text(one).number else w.text(one) for one in (low, high))]
    nan = ", propagate_nan=tl.PropagateNan.ALL" if _name(op.propagate_nan) == "ALL" else ""
    return Text(f"tl.clamp({', '.join(text.code for text in texts)}{nan})")


def _name(member) -> str:
    return str(getattr(member, "name", member))


@expression("addptr")
def _offset(w, op: Op) -> Text:
    base, offset = implicit(w, op.lhs, op.rhs)
    one, other = w.text(base), w.alone(offset)
    if element_of(op.rhs.type).bits < 64 and not other.number:
        other = w.with_sign(other, op.rhs.type, True)
    return Text(f"{one.inside(SUM)} + {other.inside(SUM + 1)}", SUM, one.signed)


@expression("select")
def _chosen(w, op: Op) -> Text:
    condition, yes, no = implicit(w, op.condition, op.if_true, op.if_false)
    one, other = w.text(yes), w.text(no)
    if one.number and other.number:
        both = w.alone(yes), w.alone(no)
        if all(text.number for text in both):
            return Text(f"tl.where({w.code(condition)}, {both[0].code}, {both[1].code})", ATOM, both[0].signed)
        one = w.typed(yes)
    one, other, sign = _of_one_type(w, (yes, one), (no, other), None)
    return Text(f"tl.where({w.code(condition)}, {one.code}, {other.code})", ATOM, sign)
