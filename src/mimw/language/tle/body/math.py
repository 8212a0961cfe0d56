"""The dialect `math`: functions of floats, by Triton's ops or by those of the chip's library.

Input: numbers of a body. Output: ops of Triton's names. For example:

    math.exp(x)         exp
    math.tanh(x)        extern_elementwise __nv_tanhf, on AMD __ocml_tanh_f32

f16 and bf16 go by way of f32. Of plain numbers Python gives the value. Vectors take the same ops, element by element.
"""

from __future__ import annotations

import math as host

from .arith import elementwise, operands
from .dialect import op
from .types import FloatType, width
from .values import Number


def in_f32(body, record, values: list[Number]) -> Number:
    """`record` on f16 or bf16 by way of f32, as Triton's mathematical ops are for f32 and f64 only."""
    threads, kind = body.threads, values[0].type
    return threads.cast("fp_trunc", record(*(threads.cast("fp_ext", one, FloatType("f32")) for one in values)), kind)


def _same(name: str, made: str, wanted: str = "float", count: int = 1, wide: bool = True) -> None:
    """An op of Triton's, whose operands are `wide`: f32 or f64."""

    def record(body, *values, fastmath=None, results=None):
        def one(*each):
            found = operands(body, f"math.{name}", each, wanted)
            if not wide or width(found[0].type) >= 32:
                return body.threads.op(made, found, found[0].type)
            return in_f32(body, lambda *values: body.threads.op(made, list(values), values[0].type), found)
        if len(values) != count:
            body.fail(f"math.{name} takes {count} operands, got {len(values)}")
        if count == 1 and isinstance(values[0], (int, float)) and hasattr(host, name):
            return getattr(host, name)(*values)
        return elementwise(body, one, values)

    record.__name__ = name
    op("math")(record)


for _name in ("exp", "exp2", "log", "log2", "sin", "cos", "ceil", "floor", "erf", "rsqrt"):
    _same(_name, _name)
_same("absf", "fabs", wide=False)
_same("absi", "iabs", "integer", wide=False)
_same("fma", "fma", count=3)


@op("math")
def sqrt(body, operand, fastmath=None):
    """Rounded to nearest, as IEEE 754 has it."""
    if isinstance(operand, (int, float)):
        return host.sqrt(operand)

    def one(value):
        (value, ) = operands(body, "math.sqrt", (value, ), "float")
        if width(value.type) < 32:
            return in_f32(body, lambda wide: body.threads.op("precise_sqrt", [wide], wide.type), [value])
        return body.threads.op("precise_sqrt" if str(value.type) == "f32" else "sqrt", [value], value.type)
    return elementwise(body, one, (operand, ))


def _library(name: str, symbol: str, count: int = 1) -> None:
    def record(body, *values, fastmath=None):
        def one(*each):
            found = operands(body, f"math.{name}", each, "float")
            return _called(body, symbol, found)
        if len(values) != count:
            body.fail(f"math.{name} takes {count} operands, got {len(values)}")
        if all(isinstance(value, (int, float)) for value in values) and hasattr(host, symbol):
            return getattr(host, symbol)(*values)
        return elementwise(body, one, values)

    record.__name__ = name
    op("math")(record)


def _called(body, symbol: str, values: list[Number]) -> Number:
    """A function of NVIDIA's or AMD's device library; f16 and bf16 go through f32."""
    threads, kind = body.threads, values[0].type
    if width(kind) < 32:
        return in_f32(body, lambda *wide: _called(body, symbol, list(wide)), values)
    values = threads.alike(*values)
    if getattr(threads.builder.options, "backend_name", "cuda") == "hip":
        name = f"__ocml_{symbol}_f{width(kind)}"
    else:
        name = f"__nv_{symbol}{'' if width(kind) == 64 else 'f'}"
    dtype = values[0].tensor.type.to_ir(threads.builder)
    handle = threads.builder.create_extern_elementwise("", "", name, [one.handle for one in values], dtype, True)
    return threads.wrap(handle, kind, values[0].lanes)


for _name, _symbol in {"tanh": "tanh", "tan": "tan", "sinh": "sinh", "cosh": "cosh", "asin": "asin", "acos": "acos", "atan": "atan",
                       "expm1": "expm1", "log1p": "log1p", "log10": "log10", "cbrt": "cbrt", "trunc": "trunc",
                       "roundeven": "rint"}.items():
    _library(_name, _symbol)
for _name, _symbol in {"atan2": "atan2", "powf": "pow", "copysign": "copysign"}.items():
    _library(_name, _symbol, 2)
