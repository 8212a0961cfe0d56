"""The trips of a loop whose blocks lie in their tensors: how far the loop can go without asking in each trip.

Input: the def-use index, a `for` op and conditions of its trips. Output: `WholeTrips`, which writes ops in front of the loop, or
the condition that cannot be told there. For example, of `0 <= i * 64 and i * 64 <= K - 64`, for i in range(steps):

    whole_trips(uses, loop, (condition, )).end(builder)     steps; or steps - 1, if the last trip reaches over the edge; or 0

A comparison of sums of the loop's number and of values that the loop does not change holds in all trips if it holds in the first
and in the last one. The sums are added up in 64 bits, so that none of them wraps.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...ir import I1, I64, Builder, Op, Value
from ...ir.flow import induction
from ...ir.ops import is_pure
from ..analysis.affine import BETWEEN, affine
from ..analysis.constants import constant_of
from ..analysis.uses import Uses


def whole_trips(uses: Uses, loop: Op, conditions: tuple[Value, ...]) -> WholeTrips | Value | None:
    """A writer of the end of the first trips, in which all conditions hold; None if the loop's step is not a positive constant."""
    step = constant_of(uses, loop.step)
    if step is None or step < 1:
        return None
    found = WholeTrips(uses, loop, step)
    for condition in conditions:
        for part in _parts(uses, condition):
            if not (found.fixed(part) or found.compares(part)):
                return part
            found.parts.setdefault(part)
    return found


def made_inside(loop: Op) -> set[Value]:
    """The values that a trip of a loop makes: arguments of blocks, and results of ops."""
    arguments = {value for one in loop.walk() for block in one.blocks for value in block.args}
    return arguments | {result for op in loop.walk() if op is not loop for result in op.results}


def _parts(uses: Uses, condition: Value) -> list[Value]:
    op = uses.definition.get(condition)
    if op is not None and op.name == "and" and condition.type == I1:
        return [*_parts(uses, op.lhs), *_parts(uses, op.rhs)]
    return [condition]


class WholeTrips:
    """`parts` are conditions that hold together: those of the loop, and comparisons that its number decides."""

    def __init__(self, uses: Uses, loop: Op, step: int):
        self.uses, self.loop, self.step = uses, loop, step
        self.inside = made_inside(loop)
        self.parts: dict[Value, None] = {}

    def fixed(self, value: Value) -> bool:
        """True if the value is the same in all trips, and can be computed in front of the loop."""
        if value not in self.inside:
            return True
        op = self.uses.definition.get(value)
        return (op is not None and is_pure(op.name) and not op.blocks and len(op.results) == 1 and op.row.cost != "division"
                and all(map(self.fixed, op.operands)))

    def compares(self, value: Value) -> bool:
        op = self.uses.definition.get(value)
        return op is not None and op.name in BETWEEN and all(self._told(side) for side in (op.lhs, op.rhs))

    def _told(self, value: Value) -> bool:
        return all(term is induction(self.loop) or self.fixed(term) for term, _ in affine(self.uses, value).terms)

    def end(self, builder: Builder) -> Value:
        """The end of a loop over the first trips, of the start's type: all of them, all but the last, or none."""
        return _Before(self, builder).end()


@dataclass
class _Before:
    """Writes ops in front of the loop."""

    trips: WholeTrips
    builder: Builder

    def end(self) -> Value:
        builder, loop, step = self.builder, self.trips.loop, self.trips.step
        start, end = (self._wide(builder.now(bound)) for bound in (loop.start, loop.end))
        way = builder.by_constant("sub", self._emit("sub", end, start), 1, loop.site)
        if step > 1:
            way = builder.scaled(builder.by_constant("sdiv", way, step, loop.site), step, loop.site)
        last = self._emit("add", start, way)
        before = builder.by_constant("sub", last, step, loop.site)
        first = self._holds(start)
        all_but_one = builder.emit("select", (self._emit("and", first, self._holds(before)), last, start), loop.site)
        found = builder.emit("select", (self._emit("and", first, self._holds(last)), end, all_but_one), loop.site)
        return builder.emit("int_cast", (self._emit("maxsi", found, start), loop.start.type, True), loop.site)

    def _holds(self, number: Value) -> Value:
        """An i1: the conditions hold in the trip of that number."""
        found = None
        for part in self.trips.parts:
            one = self._fixed(part) if self.trips.fixed(part) else self._compared(part, number)
            found = one if found is None else self._emit("and", found, one)
        return found

    def _compared(self, part: Value, number: Value) -> Value:
        op = self.trips.uses.definition[part]
        return self._emit(op.name, *(self._sum(side, number) for side in (op.lhs, op.rhs)))

    def _sum(self, value: Value, number: Value) -> Value:
        form = affine(self.trips.uses, value)
        total = self._number(form.constant)
        for term, factor in form.terms:
            wide = number if term is induction(self.trips.loop) else self._wide(self._fixed(term))
            total = self._emit("add", total, self.builder.scaled(wide, factor, self.trips.loop.site))
        return total

    def _fixed(self, value: Value) -> Value:
        """The value, computed in front of the loop."""
        if value not in self.trips.inside:
            return self.builder.now(value)
        op = self.trips.uses.definition[value]
        return self.builder.emit(op.name, self._args(op.args), op.site, **op.attrs)

    def _args(self, args):
        if isinstance(args, tuple):
            return tuple(map(self._args, args))
        return self._fixed(args) if isinstance(args, Value) else args

    def _wide(self, value: Value) -> Value:
        return value if value.type == I64 else self.builder.emit("int_cast", (value, I64, True), self.trips.loop.site)

    def _number(self, number: int) -> Value:
        return self.builder.constant(number, I64, self.trips.loop.site)

    def _emit(self, name: str, lhs: Value, rhs: Value) -> Value:
        return self.builder.emit(name, (lhs, rhs), self.trips.loop.site)
