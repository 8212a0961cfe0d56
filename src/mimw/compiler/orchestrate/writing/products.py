"""Products on the tensor cores as text: of tiles, and asynchronous ones out of shared memory.

Input: an op. Output: its text. For example:

    dot %x, %y, splat 0.0, precision=TF32       tl.dot(x, y)
    async_dot %a, %b, %acc                      tlx.async_dot(a, b, acc)
"""

from __future__ import annotations

from ....ir import Op
from ....ir.types import element_of
from .memory import member
from .rows import expression, unwritten
from .shapes import narrow
from .texts import ATOM, Text, type_name

_DEFAULT_OF_FP8 = 1 << 30       # partial sums that Hopper adds up with few bits, by Triton's default


def _is_zero(w, value) -> bool:
    number = w.constant(narrow(w, value))
    return number is not None and str(float(number.value)) == "0.0"


@expression("dot")
def _dot(w, op: Op) -> Text:
    element, eight = element_of(op.result.type), element_of(op.a.type).name.startswith("fp8")
    if op.attrs.get("registers"):
        raise unwritten(op, "it says in which registers the sum is")
    if _is_zero(w, op.acc):
        more = "" if element.name == "fp32" or not element.is_float else f", out_dtype={type_name(element)}"
    else:
        more = f", {w.code(op.acc)}" + (f", out_dtype={type_name(element)}" if element.name != "fp32" and element.is_float else "")
    precision = member(op.precision)
    more += "" if precision == "TF32" else f', input_precision="{precision.lower()}"'
    if op.max_imprecise != (_DEFAULT_OF_FP8 if eight else 0):
        more += f", max_num_imprecise_acc={op.max_imprecise}"
    return Text(f"tl.dot({w.code(op.a)}, {w.code(op.b)}{more})", ATOM, True)


@expression("dot_scaled")
def _scaled(w, op: Op) -> Text:
    parts = []
    for value, scale, format_ in ((op.a, op.a_scale, op.a_format), (op.b, op.b_scale, op.b_format)):
        name = member(format_).lower()
        parts += [w.code(value), "None" if scale is None else w.code(scale), f'"{name}"']
    element = element_of(op.result.type)
    more = "" if _is_zero(w, op.acc) else f", acc={w.code(op.acc)}"
    more += f", fast_math={bool(op.fast_math)}" if op.fast_math else ""
    more += "" if op.a_k_pack else ", lhs_k_pack=False"
    more += "" if op.b_k_pack else ", rhs_k_pack=False"
    more += "" if element.name == "fp32" else f", out_dtype={type_name(element)}"
    return Text(f"tl.dot_scaled({', '.join(parts)}{more})")


@expression("async_dot")
def _async_dot(w, op: Op) -> Text:
    if set(op.attrs) - {"type", "fresh", "emulated"} or op.attrs.get("emulated"):
        raise unwritten(op, f"it has {', '.join(sorted(set(op.attrs) - {'type'}))}")
    element = element_of(op.result.type)
    more = "" if op.acc is None else f", registers={w.code(op.acc)}" if op.attrs.get("fresh") else f", {w.code(op.acc)}"
    precision = member(op.precision)
    if precision != "TF32":
        more += f', input_precision="{precision.lower()}"'
    if element.is_float and element.name != "fp32":
        more += f", out_dtype={type_name(element)}"
    return Text(f"tlx.async_dot({w.code(op.a)}, {w.code(op.b)}{more})", ATOM, True)


@expression("async_dot_wait")
def _wait(w, op: Op) -> Text:
    text = w.text(op.value)
    return Text(f"tlx.async_dot_wait({op.pending}, {text.code})", ATOM, text.signed)
