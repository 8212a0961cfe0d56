"""The text of a value as Triton's frontend will read it: precedence, sign, and whether it is a bare number.

Input: code, or a constant and its type. Output: `Text`s, names of types, literals. For example:

    Text("a + b", SUM).inside(PRODUCT)      "(a + b)"
    literal(-1, I8, signed=False)           "255", and "-1" as a signed number
    reads_as(3, I32), reads_as(3, I64)      True, False: a bare 3 is an int32

Integers of the IR have no sign; those of Triton do, and the sign decides which division, comparison, shift, conversion or
extension is meant. So each text knows the sign that Triton gives it; None is unknown, as of what an argument points to.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from ....ir import Pointer, Scalar, Tensor, Type
from ....ir.types import element_of

ATOM, UNARY, PRODUCT, SUM, SHIFT, AND, XOR, OR, COMPARE, LOOSE = 20, 13, 12, 11, 10, 9, 8, 7, 6, 0
LONGEST = 84        # characters of a text that is written inside another
_NAMES = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64", "fp8e5": "float8e5", "fp8e4nv": "float8e4nv",
          "fp8e4b8": "float8e4b8", "fp8e5b16": "float8e5b16", "fp8e4b15": "float8e4b15", "i1": "int1"}
_SMALLEST, _LARGEST = 2.0**-126, (2 - 2.0**-23) * 2.0**127      # of the numbers that Triton takes for fp32


@dataclass(frozen=True)
class Text:
    """`code` with the precedence of its outermost operator. `number`: a literal, which takes the type of what it meets."""

    code: str
    level: int = ATOM
    signed: bool | None = None
    number: bool = False

    def inside(self, level: int) -> str:
        """The code as an operand of an operator of that precedence."""
        return f"({self.code})" if self.level < level else self.code

    def with_sign(self, signed: bool | None) -> Text:
        return replace(self, signed=signed)


def type_name(element: Type, signed: bool | None = True) -> str:
    """A type as `tl` has it."""
    if isinstance(element, Pointer):
        return f"tl.pointer_type({type_name(element.pointee, signed)})"
    if element.name in _NAMES:
        return f"tl.{_NAMES[element.name]}"
    return f"tl.{'u' if signed is False else ''}int{element.bits}"


def has_sign(type_: Type) -> bool:
    """True if Triton knows a number of that type with and without a sign. A boolean has none."""
    element = element_of(type_)
    return isinstance(element, Scalar) and not element.is_float and element.bits > 1


def literal(value: Any, element: Scalar, signed: bool | None = True) -> str | None:
    """A constant as a literal beside an operand of its type; None if there is none, whatever sign the operand may have."""
    if element.is_float:
        return _float(float(value))
    if element.bits == 1:
        return str(bool(value))
    wrapped = int(value) & (1 << element.bits) - 1
    high = wrapped >> element.bits - 1
    if high and signed is None:
        return None
    return str(wrapped - (1 << element.bits) if high and signed else wrapped)


def reads_as(value: Any, element: Type) -> bool:
    """True if the literal alone has that type."""
    if not isinstance(element, Scalar):
        return False
    if element.name == "fp32":
        size = abs(float(value))
        return size == 0 or not math.isfinite(size) or _SMALLEST <= size <= _LARGEST
    return element.name in ("i32", "i1")


def shape_of(type_: Type) -> tuple[int, ...]:
    """The extents of a tile; none of a scalar."""
    return type_.shape if isinstance(type_, Tensor) else ()


def listed(shape: tuple[int, ...]) -> str:
    return "[" + ", ".join(map(str, shape)) + "]"


def _float(value: float) -> str:
    if math.isnan(value) or math.isinf(value):
        return f'float("{value}")'
    return repr(value)
