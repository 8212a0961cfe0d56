"""Runs in tiles: how many neighbours along each axis count up by one, or are equal, and what divides the first of them.

Input: a program. Output: `Runs` of each integer, pointer and mask of it; and of a load the piece that one instruction may copy. For
example, of `a + rows[:, None] * K + tl.arange(0, 64)[None, :]` to fp16, with any rows, `a` and K divisible by 16:

    runs_of(program)[pointer].axes      along axis 0 nothing; along axis 1 runs of 64 elements, which begin at multiples of 32 bytes
    piece_of(program, load)             (1, 16): 16 bytes along axis 1

The facts are those of Triton's own axis analysis, or fewer, so a piece that this file promises is one that Triton finds as well.
Groups are aligned: a run of 8 begins at each index that 8 divides. What loops and branches hand on is met from all sides.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from math import gcd

from ...ir import Op, Pointer, Program, Tensor, Value
from ...ir.flow import all_carries
from ...ir.types import element_of

MOST_BYTES = 16     # of a piece: PTX ISA, "cp.async", cp-size
_MANY = 1 << 30
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
        return Runs(every, tuple(_shorter(replace(one, start=gcd(one.start, two.start), same=gcd(one.same, two.same)),
                                          gcd(one.run, two.run), every) for one, two in pairs))


def runs_of(program: Program) -> Mapping[Value, Runs]:
    """The facts of all integers, pointers and masks of a program."""
    return program.kept(_found)


def piece_of(program: Program, load: Op) -> tuple[int, int]:
    """(axis, bytes) of the largest piece that a load through a tile of pointers surely has in one, all or nothing of it masked."""
    runs, mask = runs_of(program), load.mask if "mask" in load.row.places else None
    size = load.pointer.type.element.pointee.bytes
    pieces = []
    for at, axis in enumerate(runs[load.pointer].axes):
        same = _MANY if mask is None else runs[mask].axes[at].same
        pieces.append((min(axis.run * size, axis.start, same * size, MOST_BYTES), at))
    piece, at = max(pieces)
    return at, piece


# ---- the way through a program ---------------------------------------------------------------------------------------------


def _found(program: Program) -> dict[Value, Runs]:
    """At first what a loop hands on is what it begins with; then all ops again, until nothing is taken back."""
    sources: dict[Value, list[Value]] = {}
    for carry in all_carries(program):
        sources.setdefault(carry.target, []).append(carry.source)
    facts: dict[Value, Runs] = {param.value: _argument(param) for param in program.params}
    hints = [op for op in program.walk() if op.name == "hint"]
    while True:
        before = dict(facts)
        for op in program.walk():
            for block in op.blocks:
                for value in block.args:
                    facts[value] = _handed(facts, sources.get(value, ()), value)
            if op.name == "for":
                counter = op.blocks[0].args[0]
                facts[counter] = Runs(gcd(_of(facts, op.start).every, _of(facts, op.step).every))
            for value in op.results:
                facts[value] = _handed(facts, sources[value], value) if value in sources else _made(facts, op, value)
            for hint in hints:
                if hint.value in op.results:
                    facts[hint.value] = _hinted(facts[hint.value], hint)
        if facts == before:
            return facts


def _handed(facts: Mapping[Value, Runs], sources: Collection[Value], value: Value) -> Runs:
    known = [facts[source] for source in sources if source in facts]
    if not known:
        return _nothing(value)
    first, *others = known
    for other in others:
        first = first.met(other)
    return first


def _argument(param) -> Runs:
    return Runs(dict(param.attrs).get("tt.divisibility", 1) if not _extents(param.value) else 1,
                tuple(Axis() for _ in _extents(param.value)))


def _hinted(runs: Runs, hint: Op) -> Runs:
    """What `tl.multiple_of` and `tl.max_contiguous` say."""
    numbers = [_power(number) for number in hint.numbers]
    if not runs.axes:
        return Runs(max(runs.every, numbers[0])) if hint.attribute == "tt.divisibility" else runs
    name = {"tt.divisibility": "start", "tt.contiguity": "run", "tt.constancy": "same"}[hint.attribute]
    return replace(runs, axes=tuple(replace(axis, **{name: max(getattr(axis, name), number)})
                                    for axis, number in zip(runs.axes, numbers)))


def _made(facts: Mapping[Value, Runs], op: Op, value: Value) -> Runs:
    rule = _compared if op.row.relation else _RULES.get(op.name)
    return rule(facts, op) if rule is not None and not op.blocks else _nothing(value)


def _extents(value: Value) -> tuple[int, ...]:
    return value.type.shape if isinstance(value.type, Tensor) else ()


def _nothing(value: Value) -> Runs:
    return Runs(1, tuple(Axis() for _ in _extents(value)))


def _of(facts: Mapping[Value, Runs], value: Value) -> Runs:
    return facts.get(value) or _nothing(value)


def _power(number: int) -> int:
    """The largest power of two that divides a number."""
    return int(number) & -int(number) or _MANY


def _shorter(axis: Axis, run: int, every: int, unit: int = 1) -> Axis:
    """The same elements in runs of so many, which begin within the old ones as well."""
    if run == 1:
        return replace(axis, run=1, start=every)
    return replace(axis, run=run, start=axis.start if run == axis.run else gcd(axis.start, run * unit))


# ---- ops -------------------------------------------------------------------------------------------------------------------


def _constant(facts, op: Op) -> Runs:
    number = None if isinstance(op.value, float) else int(op.value)
    every = 1 if number is None else _power(number)
    return Runs(every, tuple(Axis(1, every, _power(extent)) for extent in _extents(op.result)), number)


def _range(facts, op: Op) -> Runs:
    return Runs(1, (Axis(_power(op.end - op.start), _power(op.start)), ))


def _splat(facts, op: Op) -> Runs:
    value = _of(facts, op.value)
    return Runs(value.every, tuple(Axis(1, value.every, _power(extent)) for extent in _extents(op.result)), value.number)


def _broadcast(facts, op: Op) -> Runs:
    runs, shapes = _of(facts, op.value), zip(_extents(op.value), _extents(op.result))
    return Runs(runs.every, tuple(axis if had == now else Axis(1, runs.every, _power(now))
                                  for axis, (had, now) in zip(runs.axes, shapes)), runs.number)


def _expand(facts, op: Op) -> Runs:
    runs, at = _of(facts, op.value), op.axis % len(_extents(op.result))
    return Runs(runs.every, (*runs.axes[:at], Axis(1, runs.every), *runs.axes[at:]), runs.number)


def _turned(facts, op: Op) -> Runs:
    runs = _of(facts, op.value)
    return Runs(runs.every, tuple(runs.axes[at] for at in op.order))


def _as_it_is(facts, op: Op) -> Runs:
    return _of(facts, op.value)


def _sum(facts, op: Op) -> Runs:
    left, right = _of(facts, op.lhs), _of(facts, op.rhs)
    element = element_of(op.lhs.type)
    unit = element.pointee.bytes if isinstance(element, Pointer) else 1
    right = Runs(right.every * unit, tuple(replace(axis, start=axis.start * unit) for axis in right.axes))
    every, axes = gcd(left.every, right.every), []
    for one, two in zip(left.axes, right.axes):
        sides = [(gcd(one.run, two.same), one, right.every)]
        if op.name != "sub":
            sides.append((gcd(two.run, one.same), two, left.every))
        run, counting, other = max(sides, key=lambda side: side[0])
        begins = _shorter(counting, run, every, unit).start
        axes.append(Axis(run, gcd(begins, other) if run > 1 else every, gcd(one.same, two.same)))
    return Runs(every, tuple(axes))


def _product(facts, op: Op) -> Runs:
    left, right = _of(facts, op.lhs), _of(facts, op.rhs)
    if 1 in (left.number, right.number):
        return left if right.number == 1 else right
    every = min(_MANY, left.every * right.every)
    return Runs(every, tuple(Axis(1, every, gcd(one.same, two.same)) for one, two in zip(left.axes, right.axes)))


def _quotient(facts, op: Op) -> Runs:
    left, right = _of(facts, op.lhs), _of(facts, op.rhs)
    return left if right.number == 1 else _bits(facts, op)


def _remainder(facts, op: Op) -> Runs:
    left, right = _of(facts, op.lhs), _of(facts, op.rhs)
    every, axes = gcd(left.every, right.every), []
    for one, two, extent in zip(left.axes, right.axes, _extents(op.result)):
        run = gcd(one.run, one.start, right.every) if two.same == _power(extent) else 1
        start = every if run == 1 else gcd(_shorter(one, run, every).start, right.every)
        axes.append(Axis(run, start, gcd(one.same, two.same)))
    return Runs(every, tuple(axes))


def _either(facts, op: Op) -> Runs:
    """Of two numbers the one or the other, by a third one."""
    names = ("if_true", "if_false") if op.name == "select" else ("lhs", "rhs")
    one, two = (_of(facts, getattr(op, name)) for name in names)
    found = Runs(gcd(one.every, two.every), tuple(
        Axis(1, gcd(one.every, two.every), gcd(left.same, right.same)) for left, right in zip(one.axes, two.axes)))
    if op.name != "select":
        return found
    chosen = _of(facts, op.condition).axes
    return found if not chosen else replace(found, axes=tuple(replace(axis, same=gcd(axis.same, choice.same))
                                                              for axis, choice in zip(found.axes, chosen)))


def _bits(facts, op: Op) -> Runs:
    left, right = _of(facts, op.lhs), _of(facts, op.rhs)
    return Runs(1, tuple(Axis(1, 1, gcd(one.same, two.same)) for one, two in zip(left.axes, right.axes)))


def _compared(facts, op: Op) -> Runs:
    left, right, axes = _of(facts, op.lhs), _of(facts, op.rhs), []
    for one, two, extent in zip(left.axes, right.axes, _extents(op.result)):
        same = gcd(one.same, two.same)
        if op.row.relation in _BELOW and two.same == _power(extent):       # x < n changes between n - 1 and n
            same = max(same, gcd(one.run, one.start, right.every))
        if op.row.relation in _ABOVE and one.same == _power(extent):       # n > x as well
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
