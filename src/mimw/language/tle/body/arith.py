"""The dialect `arith`: numbers, thread by thread, with exact widths; the op says whether an integer has a sign.

Input: numbers of a body. Output: ops of Triton's names, so that all readers know them. For example:

    arith.divsi(a, b)       %2 = sdiv %a, %b; where only some threads come, the others divide by 1
    arith.cmpi(arith.CmpIPredicate.slt, a, b)       icmpSLT

Vectors take the same ops, element by element.
"""

from __future__ import annotations

import enum
from typing import Any

from .dialect import DIALECTS, op
from .threads import I1, INDEX
from .types import FloatType, IntegerType, Type, VectorType, is_float, is_integer, width
from .values import Number, Vector


def operands(body, what: str, values, wanted: str) -> list[Number]:
    """Numbers of one type, which must be integers or floats as `wanted` says; Python numbers take the type of the others."""
    threads = body.threads
    known = next((value.type for value in values if isinstance(value, Number)), None)
    found = [threads.number(value, known, f"{what}: an operand") for value in values]
    for value in found:
        if not (is_integer(value.type) if wanted == "integer" else is_float(value.type)):
            body.fail(f"{what} takes {wanted}s, got {value.type}")
        if value.type != found[0].type:
            body.fail(f"{what} takes operands of one type, got {found[0].type} and {value.type}",
                      "arith.index_cast, extsi, trunci and the like change a type; nothing is converted by itself")
    return found


def elementwise(body, record, values) -> Any:
    """`record` on numbers, or on the elements of vectors of one length."""
    vectors = [value for value in values if isinstance(value, Vector)]
    if not vectors:
        return record(*values)
    if any(len(one.numbers) != len(vectors[0].numbers) for one in vectors):
        body.fail("vectors of one op must have one length")
    rows = [record(*(value.numbers[at] if isinstance(value, Vector) else value for value in values))
            for at in range(len(vectors[0].numbers))]
    return Vector(tuple(rows), VectorType((len(rows), ), rows[0].type))


def _same(name: str, made: str, wanted: str, count: int = 2) -> None:
    """An op with operands and a result of one type."""

    def record(body, *values, fastmath=None, overflowFlags=None, results=None):
        def one(*each):
            found = operands(body, f"arith.{name}", each, wanted)
            return body.threads.op(made, found, found[0].type)
        if len(values) != count:
            body.fail(f"arith.{name} takes {count} operands, got {len(values)}")
        return elementwise(body, one, values)

    record.__name__ = name
    op("arith")(record)


for _name, _made in {"addi": "add", "subi": "sub", "muli": "mul", "andi": "and", "ori": "or", "xori": "xor", "shli": "shl",
                     "shrsi": "ashr", "shrui": "lshr", "minsi": "minsi", "minui": "minui", "maxsi": "maxsi",
                     "maxui": "maxui"}.items():
    _same(_name, _made, "integer")
for _name, _made in {"addf": "fadd", "subf": "fsub", "mulf": "fmul", "remf": "frem", "minimumf": "minimumf",
                     "maximumf": "maximumf", "minnumf": "minnumf", "maxnumf": "maxnumf"}.items():
    _same(_name, _made, "float")
_same("negf", "fneg", "float", 1)


# ---- division: a thread that does not come must not divide by what it holds ------------------------------------------


def _quotient(name: str, made: str) -> None:
    def record(body, lhs, rhs):
        def one(a, b):
            a, b = operands(body, f"arith.{name}", (a, b), "integer")
            return body.threads.op(made, [a, safe(body, b)], a.type)
        return elementwise(body, one, (lhs, rhs))

    record.__name__ = name
    op("arith")(record)


def safe(body, divisor: Number) -> Number:
    """The divisor, and 1 for threads that do not come: those hold anything."""
    threads = body.threads
    if threads.mask is None:
        return divisor
    return threads.select(threads.mask, divisor, threads.constant(1, divisor.type))


for _name, _made in {"divsi": "sdiv", "divui": "udiv", "remsi": "srem", "remui": "urem"}.items():
    _quotient(_name, _made)


@op("arith")
def floordivsi(body, lhs, rhs):
    """Towards minus infinity."""
    return _rounded(body, "floordivsi", lhs, rhs, down=True)


@op("arith")
def ceildivsi(body, lhs, rhs):
    """Towards plus infinity."""
    return _rounded(body, "ceildivsi", lhs, rhs, down=False)


def _rounded(body, name: str, lhs, rhs, down: bool) -> Number:
    threads = body.threads
    a, b = operands(body, f"arith.{name}", (lhs, rhs), "integer")
    b = safe(body, b)
    quotient, rest = threads.op("sdiv", [a, b], a.type), threads.op("srem", [a, b], a.type)
    zero = threads.constant(0, a.type)
    opposite = threads.compare("SLT", threads.op("xor", [a, b], a.type), zero)
    turn = threads.both(threads.compare("NE", rest, zero), opposite if down else threads.inverse(opposite))
    return threads.op("sub" if down else "add", [quotient, threads.cast("int_cast", turn, a.type, False)
                                                 if width(a.type) > 1 else turn], a.type)


@op("arith")
def ceildivui(body, lhs, rhs):
    """Divide numbers without a sign, upwards."""
    threads = body.threads
    a, b = operands(body, "arith.ceildivui", (lhs, rhs), "integer")
    b = safe(body, b)
    rest = threads.compare("NE", threads.op("urem", [a, b], a.type), threads.constant(0, a.type))
    return threads.op("add", [threads.op("udiv", [a, b], a.type), threads.cast("int_cast", rest, a.type, False)], a.type)


@op("arith")
def divf(body, lhs, rhs, fastmath=None):
    """Rounded to nearest, as IEEE 754 has it."""
    def one(a, b):
        a, b = operands(body, "arith.divf", (a, b), "float")
        return body.threads.op("precise_divf" if str(a.type) == "f32" else "fdiv", [a, b], a.type)
    return elementwise(body, one, (lhs, rhs))


# ---- constants, choices, comparisons ----------------------------------------------------------------------------------


@op("arith")
def constant(body, result=None, value=None, type=None):
    """A number known when compiling: `constant(type, value)` or `constant(value, type=)`; a float without a type is f32, an int an
    index."""
    if isinstance(value, Type) or not isinstance(result, Type) and result is not None:
        result, value = value, result
    result = result if result is not None else type
    value = getattr(value, "value", value)
    if isinstance(result, VectorType):
        one = constant.record(body, [result.element_type, value], {})
        return Vector((one, ) * result.shape[0], result)
    if not isinstance(value, (bool, int, float)):
        body.fail(f"arith.constant: the value must be a number known when compiling, got {value!r}")
    if result is None:
        return body.threads.number(value)
    if not (is_integer(result) or is_float(result)):
        body.fail(f"arith.constant: {result} is no type of a number")
    if is_integer(result) and isinstance(value, float):
        body.fail(f"arith.constant: {value} is no {result}")
    return body.threads.constant(float(value) if is_float(result) else value, result)


@op("arith")
def select(body, condition, true_value, false_value):
    """One of two values, thread by thread."""
    def one(flags, yes, no):
        flags = body.threads.number(flags, I1)
        known = next((value.type for value in (yes, no) if isinstance(value, Number)), None)
        yes, no = body.threads.number(yes, known), body.threads.number(no, known)
        if flags.type != I1 or yes.type != no.type:
            body.fail(f"arith.select takes an i1 and two values of one type, got {flags.type}, {yes.type} and {no.type}")
        return body.threads.select(flags, yes, no)
    return elementwise(body, one, (condition, true_value, false_value))


class CmpIPredicate(enum.IntEnum):
    """The comparison of two integers: s.. with a sign, u.. without."""

    eq, ne, slt, sle, sgt, sge, ult, ule, ugt, uge = range(10)


class CmpFPredicate(enum.IntEnum):
    """The comparison of two floats: o.. is false of a NaN, u.. is true."""

    AlwaysFalse, OEQ, OGT, OGE, OLT, OLE, ONE, ORD, UEQ, UGT, UGE, ULT, ULE, UNE, UNO, AlwaysTrue = range(16)


def _predicate(body, kinds: type[enum.IntEnum], given) -> str:
    names = {one.name.lower(): one.name for one in kinds}
    given = getattr(given, "value", given) if not isinstance(given, kinds) else given
    if isinstance(given, str) and given.lower() in names:
        return names[given.lower()]
    if isinstance(given, int) and given in list(kinds):
        return kinds(given).name
    body.fail(f"{given!r} is no {kinds.__name__}; there are {', '.join(one.name for one in kinds)}")


@op("arith")
def cmpi(body, predicate, lhs, rhs):
    """A truth value of two integers."""
    relation = _predicate(body, CmpIPredicate, predicate).upper()
    def one(a, b):
        return body.threads.compare(relation, *operands(body, "arith.cmpi", (a, b), "integer"))
    return elementwise(body, one, (lhs, rhs))


@op("arith")
def cmpf(body, predicate, lhs, rhs, fastmath=None):
    """A truth value of two floats."""
    relation = _predicate(body, CmpFPredicate, predicate)

    def one(a, b):
        threads, (a, b) = body.threads, operands(body, "arith.cmpf", (a, b), "float")
        if relation.startswith("Always"):
            return threads.constant(relation == "AlwaysTrue", I1)
        if relation in ("ORD", "UNO"):
            ordered = threads.both(threads.op("fcmpOEQ", [a, a], I1), threads.op("fcmpOEQ", [b, b], I1))
            return ordered if relation == "ORD" else threads.inverse(ordered)
        return threads.op(f"fcmp{relation}", [a, b], I1)
    return elementwise(body, one, (lhs, rhs))


DIALECTS["arith"].CmpIPredicate, DIALECTS["arith"].CmpFPredicate = CmpIPredicate, CmpFPredicate


# ---- from one type to another -----------------------------------------------------------------------------------------


def cast_type(body, what: str, first, second) -> tuple[Type, Any]:
    """The type and the operand of a cast, in either order: bindings have had both."""
    type_, value = (first, second) if isinstance(first, Type) else (second, first)
    if not isinstance(type_, Type):
        body.fail(f"{what} takes a type and a value, got {first!r} and {second!r}")
    return type_, value


def _cast(name: str, fits, made: str, *attributes) -> None:
    def record(body, out, in_):
        type_, value = cast_type(body, f"arith.{name}", out, in_)

        def one(value):
            value = body.threads.number(value)
            element = type_.element_type if isinstance(type_, VectorType) else type_
            if not fits(value.type, element):
                body.fail(f"arith.{name} makes no {element} of {value.type}")
            if made == "int_cast":
                return body.threads.resized(value, element, *attributes)
            return body.threads.cast(made, value, element, *attributes)
        return elementwise(body, one, (value, ))

    record.__name__ = name
    op("arith")(record)


def _wider(a, b) -> bool:
    return isinstance(a, IntegerType) and isinstance(b, IntegerType) and a.width < b.width


def _index(a, b) -> bool:
    return is_integer(a) and is_integer(b) and (a == INDEX) != (b == INDEX)


def _floats(a, b) -> bool:
    return isinstance(a, FloatType) and isinstance(b, FloatType)


_cast("index_cast", _index, "int_cast", True)
_cast("index_castui", _index, "int_cast", False)
_cast("extsi", _wider, "int_cast", True)
_cast("extui", _wider, "int_cast", False)
_cast("trunci", lambda a, b: _wider(b, a), "int_cast", False)
_cast("sitofp", lambda a, b: isinstance(a, IntegerType) and is_float(b), "si_to_fp")
_cast("uitofp", lambda a, b: isinstance(a, IntegerType) and is_float(b), "ui_to_fp")
_cast("fptosi", lambda a, b: is_float(a) and isinstance(b, IntegerType), "fp_to_si")
_cast("fptoui", lambda a, b: is_float(a) and isinstance(b, IntegerType), "fp_to_ui")
_cast("extf", lambda a, b: _floats(a, b) and width(a) < width(b), "fp_ext")
_cast("truncf", lambda a, b: _floats(a, b) and width(a) > width(b), "fp_trunc")
_cast("bitcast", lambda a, b: width(a) == width(b), "bitcast")
