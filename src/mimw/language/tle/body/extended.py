"""Ops of `arith` that give two integers: a sum and its carry, the halves of a product.

Input: two integers of a body. Output: a tuple of two numbers. For example:

    low, high = arith.mulsi_extended(a, b)      mul; umulhi, less b where a is negative and a where b is
"""

from __future__ import annotations

from .arith import operands
from .dialect import op
from .threads import I32
from .types import width
from .values import Number


@op("arith")
def addui_extended(body, lhs, rhs):
    """(sum, whether it has carried)."""
    threads, (a, b) = body.threads, operands(body, "arith.addui_extended", (lhs, rhs), "integer")
    total = threads.op("add", [a, b], a.type)
    return total, threads.compare("ULT", total, a)


@op("arith")
def mului_extended(body, lhs, rhs):
    """(low half, high half) of the product without signs."""
    threads, (a, b) = body.threads, operands(body, "arith.mului_extended", (lhs, rhs), "integer")
    return threads.op("mul", [a, b], a.type), _high(body, a, b)


@op("arith")
def mulsi_extended(body, lhs, rhs):
    """(low half, high half) of the product with signs."""
    threads, (a, b) = body.threads, operands(body, "arith.mulsi_extended", (lhs, rhs), "integer")
    high, zero = _high(body, a, b), threads.constant(0, a.type)
    for one, other in ((a, b), (b, a)):
        high = threads.op("sub", [high, threads.select(threads.compare("SLT", one, zero), other, zero)], a.type)
    return threads.op("mul", [a, b], a.type), high


def _high(body, a: Number, b: Number) -> Number:
    if width(a.type) >= 32:
        return body.threads.op("umulhi", [a, b], a.type)
    wide = [body.threads.cast("int_cast", one, I32, False) for one in (a, b)]
    product = body.threads.op("mul", wide, I32)
    shifted = body.threads.op("lshr", [product, body.threads.constant(width(a.type), I32)], I32)
    return body.threads.cast("int_cast", shifted, a.type, False)
