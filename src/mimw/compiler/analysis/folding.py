"""What an integer op gives for two numbers that are known.

Input: an op, and the constants of its operands. Output: the constant of its result, or None. For example:

    folded(add of i32, 0, 64)       64
    folded(sdiv of i32, 7, 0)       None
"""

from __future__ import annotations

from ...ir import Op, Scalar

_SIGNED = ("add", "sub", "mul", "sdiv", "srem", "and", "or", "xor")


def folded(op: Op, one: int, other: int) -> int | None:
    """The result as a signed number of the op's type; None for tiles, floats, booleans, and where there is no number."""
    type_ = op.results[0].type
    if op.name not in _SIGNED or not isinstance(type_, Scalar) or type_.is_float or type_.bits == 1:
        return None
    one, other = signed(one, type_), signed(other, type_)
    if op.name in ("sdiv", "srem") and (other == 0 or other == -1):
        return None
    return signed(op.row.folds(one, other), type_)


def cast(op: Op, value: int) -> int | None:
    """The number that an int_cast of that number gives, as `folded`; None where either is a boolean or a tile."""
    before, after = op.value.type, op.results[0].type
    if not all(isinstance(one, Scalar) and not one.is_float and one.bits > 1 for one in (before, after)):
        return None
    return signed(signed(value, before) if op.signed else int(value) & (1 << before.bits) - 1, after)


def signed(value: int, type_: Scalar) -> int:
    """The number of these bits with a sign."""
    wrapped = int(value) & (1 << type_.bits) - 1
    return wrapped - (1 << type_.bits) if wrapped >> type_.bits - 1 else wrapped
