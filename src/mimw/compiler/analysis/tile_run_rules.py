"""What an op makes of runs in tiles: the rules of `tile_runs`.

Input: the facts of an op's operands, and the op. Output: the `Runs` of its result. For example:

    made(facts, op, op.result)      of `x + tl.arange(0, 64)[None, :]`: runs of 64 along axis 1
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import gcd

from ...ir import Op, Pointer, Tensor, Value
from ...ir.types import element_of

MANY = 1 << 30
_BELOW, _ABOVE = ("<", ">="), (">", "<=")


@dataclass(frozen=True)
class Axis:
    """Along one axis: `run` neighbours count up by one (pointers: by an element), `start` divides the first of a run (pointers: its
    address), `same` neighbours are equal. All are powers of two."""

    run: int = 1
    start: int = 1
    same: int = 1


@dataclass(frozen=True)
class Runs:
    """Of a tile, or of a number, which has no axes: `every` divides each element; `number` is what all of them are, if that is
    known."""

    every: int
    axes: tuple[Axis, ...] = ()
    number: int | None = None

    def met(self, other: Runs) -> Runs:
        """The facts that both have."""
        every = gcd(self.every, other.every)
        pairs = zip(self.axes, other.axes)
        return Runs(every, tuple(shorter(replace(one, start=gcd(one.start, two.start), same=gcd(one.same, two.same)),
                                          gcd(one.run, two.run), every) for one, two in pairs))


def made(facts: Mapping[Value, Runs], op: Op, value: Value) -> Runs:
    rule = _compared if op.row.relation else _RULES.get(op.name)
    return rule(facts, op) if rule is not None and not op.blocks else nothing(value)


def extents(value: Value) -> tuple[int, ...]:
    return value.type.shape if isinstance(value.type, Tensor) else ()


def nothing(value: Value) -> Runs:
    return Runs(1, tuple(Axis() for _ in extents(value)))


def fact(facts: Mapping[Value, Runs], value: Value) -> Runs:
    return facts.get(value) or nothing(value)


def power(number: int) -> int:
    """The largest power of two that divides a number."""
    return int(number) & -int(number) or MANY


def shorter(axis: Axis, run: int, every: int, unit: int = 1) -> Axis:
    """The same elements in runs of so many, which begin within the old ones as well."""
    if run == 1:
        return replace(axis, run=1, start=every)
    return replace(axis, run=run, start=axis.start if run == axis.run else gcd(axis.start, run * unit))


# ---- ops -------------------------------------------------------------------------------------------------------------------


def _constant(facts, op: Op) -> Runs:
    number = None if isinstance(op.value, float) else int(op.value)
    every = 1 if number is None else power(number)
    return Runs(every, tuple(Axis(1, every, power(extent)) for extent in extents(op.result)), number)


def _range(facts, op: Op) -> Runs:
    return Runs(1, (Axis(power(op.end - op.start), power(op.start)), ))


def _splat(facts, op: Op) -> Runs:
    value = fact(facts, op.value)
    return Runs(value.every, tuple(Axis(1, value.every, power(extent)) for extent in extents(op.result)), value.number)


def _broadcast(facts, op: Op) -> Runs:
    runs, shapes = fact(facts, op.value), zip(extents(op.value), extents(op.result))
    return Runs(runs.every, tuple(axis if had == now else Axis(1, runs.every, power(now))
                                  for axis, (had, now) in zip(runs.axes, shapes)), runs.number)


def _expand(facts, op: Op) -> Runs:
    runs, at = fact(facts, op.value), op.axis % len(extents(op.result))
    return Runs(runs.every, (*runs.axes[:at], Axis(1, runs.every), *runs.axes[at:]), runs.number)


def _turned(facts, op: Op) -> Runs:
    runs = fact(facts, op.value)
    return Runs(runs.every, tuple(runs.axes[at] for at in op.order))


def _as_it_is(facts, op: Op) -> Runs:
    return fact(facts, op.value)


def _sum(facts, op: Op) -> Runs:
    left, right = fact(facts, op.lhs), fact(facts, op.rhs)
    element = element_of(op.lhs.type)
    unit = element.pointee.bytes if isinstance(element, Pointer) else 1
    right = Runs(right.every * unit, tuple(replace(axis, start=axis.start * unit) for axis in right.axes))
    every, axes = gcd(left.every, right.every), []
    for one, two in zip(left.axes, right.axes):
        sides = [(gcd(one.run, two.same), one, right.every)]
        if op.name != "sub":
            sides.append((gcd(two.run, one.same), two, left.every))
        run, counting, other = max(sides, key=lambda side: side[0])
        begins = shorter(counting, run, every, unit).start
        axes.append(Axis(run, gcd(begins, other) if run > 1 else every, gcd(one.same, two.same)))
    return Runs(every, tuple(axes))


def _product(facts, op: Op) -> Runs:
    left, right = fact(facts, op.lhs), fact(facts, op.rhs)
    if 1 in (left.number, right.number):
        return left if right.number == 1 else right
    every = min(MANY, left.every * right.every)
    return Runs(every, tuple(Axis(1, every, gcd(one.same, two.same)) for one, two in zip(left.axes, right.axes)))


def _quotient(facts, op: Op) -> Runs:
    left, right = fact(facts, op.lhs), fact(facts, op.rhs)
    return left if right.number == 1 else _bits(facts, op)


def _remainder(facts, op: Op) -> Runs:
    left, right = fact(facts, op.lhs), fact(facts, op.rhs)
    every, axes = gcd(left.every, right.every), []
    for one, two, extent in zip(left.axes, right.axes, extents(op.result)):
        run = gcd(one.run, one.start, right.every) if two.same == power(extent) else 1
        start = every if run == 1 else gcd(shorter(one, run, every).start, right.every)
        axes.append(Axis(run, start, gcd(one.same, two.same)))
    return Runs(every, tuple(axes))


def _either(facts, op: Op) -> Runs:
    """Of two numbers the one or the other, by a third one."""
    names = ("if_true", "if_false") if op.name == "select" else ("lhs", "rhs")
    one, two = (fact(facts, getattr(op, name)) for name in names)
    found = Runs(gcd(one.every, two.every), tuple(
        Axis(1, gcd(one.every, two.every), gcd(left.same, right.same)) for left, right in zip(one.axes, two.axes)))
    if op.name != "select":
        return found
    chosen = fact(facts, op.condition).axes
    return found if not chosen else replace(found, axes=tuple(replace(axis, same=gcd(axis.same, choice.same))
                                                              for axis, choice in zip(found.axes, chosen)))


def _bits(facts, op: Op) -> Runs:
    left, right = fact(facts, op.lhs), fact(facts, op.rhs)
    return Runs(1, tuple(Axis(1, 1, gcd(one.same, two.same)) for one, two in zip(left.axes, right.axes)))


def _compared(facts, op: Op) -> Runs:
    left, right, axes = fact(facts, op.lhs), fact(facts, op.rhs), []
    for one, two, extent in zip(left.axes, right.axes, extents(op.result)):
        same = gcd(one.same, two.same)
        if op.row.relation in _BELOW and two.same == power(extent):       # x < n changes between n - 1 and n
            same = max(same, gcd(one.run, one.start, right.every))
        if op.row.relation in _ABOVE and one.same == power(extent):       # n > x as well
            same = max(same, gcd(two.run, two.start, left.every))
        axes.append(Axis(1, 1, same))
    return Runs(1, tuple(axes))


_RULES: dict[str, Callable] = {
    "constant": _constant, "make_range": _range, "distinct_range": _range, "splat": _splat, "broadcast": _broadcast,
    "expand_dims": _expand, "trans": _turned, "int_cast": _as_it_is, "uniform": _as_it_is, "add": _sum, "sub": _sum,
    "addptr": _sum, "mul": _product, "sdiv": _quotient, "udiv": _quotient, "srem": _remainder, "urem": _remainder,
    "select": _either, "and": _bits, "or": _bits, "xor": _bits,
    **dict.fromkeys(("minsi", "maxsi", "minui", "maxui"), _either),
}
