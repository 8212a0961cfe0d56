"""Signatures of scalars: two scalars with one signature are certainly the same number in the same round of equally long
loops.

Input: the def-use index and a scalar. Output: its signature, or None if the scalar is not compared. For example:

    for i in range(n): barrier_wait(free[i % 4], ..)       in the task that loads
    for k in range(n): barrier_arrive(free[k % 4])         in the task that multiplies: `k % 4` has the signature of `i % 4`

Producer and consumer write the same loop twice, each in its own task, and compute slot and phase from counters of their
own. To compare them, a scalar is given a *signature*: its expression down to what both tasks share (parameters and
values from outside the tasks), with loops and carried values described by their own expressions. Equal signatures mean
equal numbers; unequal ones mean nothing.
"""

from __future__ import annotations

from ...ir import Op, Value
from ...ir.flow import bounds, loop_carry
from .constants import constant_of
from .uses import Uses

Signature = tuple

_BUDGET = 400  # nodes of one expression; larger ones are not compared


class Symbols:
    """Signatures of the scalars of one program. `None` stands for an expression that is not compared: it is too large,
    or reads memory within a task."""

    def __init__(self, uses: Uses):
        self.uses = uses
        self.found: dict = uses.known.setdefault("symbols", {})     # each answer is found once for the program

    def of(self, value: Value | int | None) -> Signature | None:
        """The signature of a scalar."""
        return self._attempt(value, lambda walk: walk.value(value))

    def loops(self, op: Op) -> tuple[Signature, ...] | None:
        """The signatures of the loops around `op`, outermost first: how often `op` is passed, apart from conditions."""
        loops = self.uses.loops(op)
        return self._attempt(loops, lambda walk: tuple(walk.loop(loop) for loop in loops))

    def _attempt(self, about, question):
        if about not in self.found:
            try:
                self.found[about] = question(_Walk(self.uses))
            except _Unknown:
                self.found[about] = None
        return self.found[about]


class _Unknown(Exception):
    """The expression cannot be compared."""


class _Walk:

    def __init__(self, uses: Uses):
        self.uses, self.left = uses, _BUDGET
        self.open: list[Value] = []  # carried values being described; an inner mention is written as its place here

    def value(self, value) -> Signature:
        self.left -= 1
        if self.left < 0:
            raise _Unknown
        if not isinstance(value, Value):
            return ("number", value)
        number = constant_of(self.uses, value)
        if number is not None:
            return ("number", number)
        if value in self.open:
            return ("carried", self.open.index(value))
        op = self.uses.definition[value]
        if op is None:
            return self.argument(value)
        if "loop" in op.row.traits:
            return ("after", op.results.index(value), self.carried(op, value))
        if op.name == "if":
            index = op.results.index(value)
            return ("if", self.value(op.condition), *(self.value(block.yielded[index]) for block in op.blocks))
        if "pure" in op.row.effects and not op.blocks:
            return (op.name, str(value.type), *(self.value(arg) if isinstance(arg, Value) else str(arg) for arg in op.args))
        if self.uses.task(op) is None and not self.uses.loops(op):
            return ("shared", value)
        raise _Unknown

    def argument(self, value: Value) -> Signature:
        place = self.uses.argument.get(value)
        if place is None:
            return ("shared", value)
        loop, index = place.parent, place.block.args.index(value)
        if loop is None or loop.name != "for":
            raise _Unknown
        return ("round", self.loop(loop)) if index == 0 else self.carried(loop, value)

    def loop(self, loop: Op) -> Signature:
        """The depth and trip count of a loop, as a signature. The trip count of a `while` is not compared: `_Unknown` is
        raised."""
        if loop.name != "for":
            raise _Unknown
        return ("for", len(self.uses.loops(loop)), *map(self.value, bounds(loop)))

    def carried(self, loop: Op, value: Value) -> Signature:
        """A carried value at the start of a round: the loop, where it starts, and how a round changes it."""
        bounds, carry = self.loop(loop), loop_carry(loop, value)
        first = self.value(carry.init)
        self.open.append(carry.argument)
        change = self.value(carry.after)
        self.open.pop()
        return ("carry", bounds, first, change)
