"""`x - (x // n) * n` becomes `x % n`, of which the host knows the range.

Input: a program. Output: the program with each such difference as one remainder, or the same object. For example:

    chunk = pid // batch; b = pid - chunk * batch       b is pid % batch: from 0 to batch - 1, where a difference is anything

Kernels write it so to spare a second division. Both are the same number of as many bits, whatever x and n are: a quotient is
cut off towards 0, and the remainder has the sign of x.
"""

from __future__ import annotations

from dataclasses import replace

from ...ir import Builder, Op, Program, Value

_SIGNED = {"sdiv": "srem", "udiv": "urem"}


def with_remainders(program: Program) -> Program:
    """The program with its remainders as such; the same object if it computes none by a difference."""
    made = {result: op for op in program.walk() for result in op.results}
    found = {op: quotient for op in program.named("sub") if (quotient := _quotient(op, made)) is not None}
    if not found:
        return program
    builder = Builder(program.site)

    def change(op: Op) -> None:
        quotient = found[op]
        builder.emit(_SIGNED[quotient.name], (quotient.lhs, quotient.rhs), op.site, results=op.results)

    return replace(program, body=builder.anew(program.body, found, change))


def _quotient(op: Op, made: dict[Value, Op]) -> Op | None:
    """The quotient of x that a difference x - (x // n) * n takes; None of any other difference."""
    product = made.get(op.rhs)
    if product is None or product.name != "mul":
        return None
    for one, other in ((product.lhs, product.rhs), (product.rhs, product.lhs)):
        quotient = made.get(one)
        if quotient is not None and quotient.name in _SIGNED and quotient.lhs is op.lhs and quotient.rhs is other:
            return quotient
    return None
