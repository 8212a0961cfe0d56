"""Division of whole numbers by zero: an error where the divisor is one number for the whole tile.

Input: a division or remainder, and the task. Output: nothing, or a `DivisionByZero`. For example:

    x // n              refused for n = 0, whether x is a number or a tile
    x // tl.load(...)   zeros among the elements are let be: they may belong to lanes that a mask takes out later
"""

from __future__ import annotations

import numpy as np

from ...errors import DivisionByZero, fail
from ...ir import Op, Program, Value


def refuse_zero(task, op: Op) -> None:
    """Raise DivisionByZero if `op`, a division or remainder of integers, divides by the number 0."""
    if not task.machine.computes_all or np.any(divisor := task.read(op.rhs, op)):
        return
    if np.ndim(divisor) and op.rhs not in _spread(task.machine.program):
        return
    one = task.read(op.lhs, op)
    what = f"{one}" if not np.ndim(one) else f"a tile of {np.size(one)} elements"
    verb = "divides" if "div" in op.name else "takes the remainder of"
    name = f" {op.rhs.name!r}, which is 0" if op.rhs.name else " 0"
    raise fail(DivisionByZero, task, op, f"{verb} {what} by{name}; the result is undefined on every GPU",
               hint="put it under an `if`, or divide by tl.where(n != 0, n, 1)")


def _spread(program: Program) -> set[Value]:
    """The tiles that hold one number in every element."""
    found: set[Value] = set()
    for op in program.walk():
        if op.name == "splat" or "reshape" in op.row.traits and op.value in found:
            found.add(op.result)
    return found
