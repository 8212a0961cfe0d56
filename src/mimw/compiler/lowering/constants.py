"""Scalar constants.

Input: a Python number and an IR type. Output: an MLIR constant. An example:

    scalar_constant(builder, 255, I8)        arith.constant -1 : i8
"""

from __future__ import annotations


def scalar_constant(builder, value, type_):
    """An MLIR constant of a scalar type."""
    bits = {"i8": 8, "i16": 16, "i32": 32, "i64": 64}.get(type_.name)
    if type_.name == "i1":
        return builder.get_int1(bool(value))
    if bits:
        wrapped = (int(value) + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)
        return getattr(builder, f"get_int{bits}")(wrapped)
    if type_.name in ("fp16", "bf16", "fp32", "fp64"):
        return getattr(builder, f"get_{type_.name}")(float(value))
    if value == 0:
        return builder.get_null_value(getattr(builder, f"get_{type_.name}_ty")())
    raise ValueError(f"no constant {value} of type {type_}")
