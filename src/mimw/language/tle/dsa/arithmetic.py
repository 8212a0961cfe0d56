"""`add`, `sub`, `mul`, `div`, `max` and `min` of whole buffers, into a buffer.

Input: three buffers of a kernel's call. Output: the op `dsa_binary`. For example:

    tle.dsa.add(a, b, a)        dsa_binary 'add', %a, %b, %a
"""

from __future__ import annotations

from ...core import word
from ...refuse import refuse
from .buffers import is_buffer


def _binary(kind: str, lhs, rhs, out, semantic) -> None:
    for parameter, one in (("lhs", lhs), ("rhs", rhs), ("out", out)):
        is_buffer(kind, parameter, one)
    for parameter, one in (("rhs", rhs), ("out", out)):
        if one.shape != lhs.shape:
            refuse(ValueError, f"tle.dsa.{kind}: all shapes must be equal, `lhs` has {list(lhs.shape)} and `{parameter}` "
                               f"{list(one.shape)}", mend="nothing is spread here; tle.dsa.subview takes a part of a buffer")
        if one.dtype != lhs.dtype:
            refuse(ValueError, f"tle.dsa.{kind}: all element types must be equal, `lhs` holds {lhs.dtype} and `{parameter}` "
                               f"{one.dtype}",
                   mend="convert by way of a tensor: tle.dsa.to_buffer(tle.dsa.to_tensor(x).to(dtype))")
    if not (lhs.dtype.is_floating() or lhs.dtype.is_int()) or lhs.dtype.is_bool():
        refuse(ValueError, f"tle.dsa.{kind}: buffers of floats or integers, got {lhs.dtype}")
    attrs = {"unsigned": True} if lhs.dtype.is_int_unsigned() else {}
    semantic.builder.record("dsa_binary", kind, lhs.handle, rhs.handle, out.handle, **attrs)


@word
def add(lhs, rhs, out, _semantic=None) -> None:
    """out[...] = lhs + rhs, element by element.

    args:      lhs, rhs, out - buffers of one shape and element type, floats or integers; `out` may be an operand
    errors:    ValueError for other shapes or types
    lowers to: on a GPU arith.addf or addi
    """
    _binary("add", lhs, rhs, out, _semantic)


@word
def sub(lhs, rhs, out, _semantic=None) -> None:
    """out[...] = lhs - rhs, element by element.

    args:      as of `add`
    errors:    ValueError for other shapes or types
    lowers to: on a GPU arith.subf or subi
    """
    _binary("sub", lhs, rhs, out, _semantic)


@word
def mul(lhs, rhs, out, _semantic=None) -> None:
    """out[...] = lhs * rhs, element by element.

    args:      as of `add`
    errors:    ValueError for other shapes or types
    lowers to: on a GPU arith.mulf or muli
    """
    _binary("mul", lhs, rhs, out, _semantic)


@word
def div(lhs, rhs, out, _semantic=None) -> None:
    """out[...] = lhs / rhs; integers are divided towards zero, floats of 16 bits in fp32.

    args:      as of `add`
    errors:    ValueError for other shapes or types
    lowers to: on a GPU arith.divf, divsi or divui
    """
    _binary("div", lhs, rhs, out, _semantic)


@word
def max(lhs, rhs, out, _semantic=None) -> None:
    """out[...] = the larger of lhs and rhs; of a NaN either.

    args:      as of `add`
    errors:    ValueError for other shapes or types
    lowers to: on a GPU arith.maxnumf, maxsi or maxui
    """
    _binary("max", lhs, rhs, out, _semantic)


@word
def min(lhs, rhs, out, _semantic=None) -> None:
    """out[...] = the smaller of lhs and rhs; of a NaN either.

    args:      as of `add`
    errors:    ValueError for other shapes or types
    lowers to: on a GPU arith.minnumf, minsi or minui
    """
    _binary("min", lhs, rhs, out, _semantic)
