"""Waits that certainly need one more completed phase each time they come back to a barrier.

Input: the def-use index and a wait, as an `BarrierAccess`. Output: the number of barriers that the wait goes round, or None
where that is not certain. For example:

    for i in range(n): barrier_wait(full[i % 4], (i // 4) & 1)            ring_of_wait: 4
    for i in range(n): barrier_wait(free[i % 4], (i // 4) & 1 ^ 1)        ring_of_filler: 4

A consumer or a producer waits on one barrier of a ring after the other, by a counter or a parity bit that its loops
carry. Visit `v` (from 0) of a barrier, written in one of the usual ways, asks for parity `v & 1`: the wait returns only
after `v + 1` phases. A wait whose slot or phase is written in another way is not recognised, and nothing is claimed of
it.
"""

from __future__ import annotations

from collections.abc import Callable

from ...ir import Op, Value
from ...ir.flow import induction, loop_carry
from .barriers import BarrierAccess
from .constants import constant_of
from .uses import Uses


def ring_of_wait(uses: Uses, wait: BarrierAccess) -> int | None:
    """The number of barriers that the wait goes round, if visit `v` to each certainly needs `v + 1` completed phases.

    None where that is not certain. Recognised are, in loops and outside of conditions:
    * slot `x % n` (plus a constant) with phase `(x // n) & 1`, where `x` counts the rounds from 0: n;
    * one fixed barrier with phase `x & 1`, or with a flag that starts at 0 and is flipped every round: 1.
    """
    return _ring(uses, wait, _plain(uses, wait.op.phase), 0)


def ring_of_filler(uses: Uses, wait: BarrierAccess) -> int | None:
    """The number of barriers in the ring of a wait that fills empty slots: visit `v` certainly needs `v` completed phases, so
    the first visit passes at once. Recognised are the phases of `ring_of_wait`, flipped: `((x // n) & 1) ^ 1`, `1 - (x & 1)`,
    a flag that starts at 1. None for other phases."""
    phase = _plain(uses, wait.op.phase)
    op = uses.definition[phase] if isinstance(phase, Value) else None
    if op is not None and (op.name == "xor" and constant_of(uses, op.rhs) == 1):
        return _ring(uses, wait, _plain(uses, op.lhs), 0)
    if op is not None and op.name == "sub" and constant_of(uses, op.lhs) == 1:
        return _ring(uses, wait, _plain(uses, op.rhs), 0)
    return _ring(uses, wait, phase, 1)


def _ring(uses: Uses, wait: BarrierAccess, phase, first: int) -> int | None:
    """The number of barriers in the ring of a wait whose flag, if it carries one, starts at `first`, and whose counter, if it
    carries one, starts at 0; None if the phases are not certain."""
    if wait.predicate is not None or uses.conditional(wait.op) or wait.index is None:
        return None
    if constant_of(uses, wait.index) is not None:
        counter = _parity_of(uses, phase)
        certain = _through_loops(uses, wait, phase, _flips, first) or (
            not first and counter is not None and _through_loops(uses, wait, counter, _counts))
        return 1 if certain else None
    remainder = _divided(uses, split_offset(uses, wait.index)[0], "remainder")
    quotient = _divided(uses, _parity_of(uses, phase), "quotient")
    if first or remainder is None or remainder != quotient or not _through_loops(uses, wait, remainder[0], _counts):
        return None
    return remainder[1]


def split_offset(uses: Uses, index: Value | int) -> tuple[Value | None, int]:
    """An index as (value, constant added to it); a constant index has no value."""
    number = constant_of(uses, index)
    if number is not None:
        return None, number
    op = uses.definition[index]
    if op is not None and op.name == "add":
        for value, added in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
            number = constant_of(uses, added)
            if number is not None:
                inner, offset = split_offset(uses, value)
                return inner, offset + number
    return index, 0


def _plain(uses: Uses, value):
    """The value without width changes."""
    while isinstance(value, Value) and uses.definition[value] is not None and uses.definition[value].name == "int_cast":
        value = uses.definition[value].value
    return value


def _binary(uses: Uses, value, name: str) -> tuple[Value, int] | None:
    """(x, n) if the value is `name x n` with a constant n."""
    return _with_number(uses, value, lambda op: op.name == name)


def _divided(uses: Uses, value, trait: str) -> tuple[Value, int] | None:
    """(x, n) if the value is the "quotient" or the "remainder" of x and a constant n."""
    return _with_number(uses, value, lambda op: trait in op.row.traits)


def _with_number(uses: Uses, value, fits: Callable[[Op], bool]) -> tuple[Value, int] | None:
    value = _plain(uses, value)
    op = uses.definition[value] if isinstance(value, Value) else None
    if op is None or not fits(op):
        return None
    number = constant_of(uses, op.rhs)
    return None if number is None else (_plain(uses, op.lhs), number)


def _parity_of(uses: Uses, phase) -> Value | None:
    """x if the phase is `x & 1` or `x % 2`."""
    for found, number in ((_binary(uses, phase, "and"), 1), (_divided(uses, phase, "remainder"), 2)):
        if found is not None and found[1] == number:
            return found[0]
    return None


def _counts(uses: Uses, carried: Value, after: Value) -> bool:
    return _binary(uses, after, "add") == (carried, 1)


def _flips(uses: Uses, carried: Value, after: Value) -> bool:
    op = uses.definition[_plain(uses, after)] if isinstance(after, Value) else None
    if op is not None and op.name == "sub":
        return constant_of(uses, op.lhs) == 1 and _plain(uses, op.rhs) is carried
    return _binary(uses, after, "xor") == (carried, 1)


def _through_loops(uses: Uses, wait: BarrierAccess, value, step: Callable[[Uses, Value, Value], bool], first: int = 0) -> bool:
    """True if `value` starts at `first`, takes one `step` in every round of the innermost loop around the wait, and is handed
    on through all loops around that one."""
    loops = uses.loops(wait.op)
    if not loops:
        return constant_of(uses, value) == first
    if not isinstance(value, Value) or any(loop.name != "for" for loop in loops):
        return False
    inner = loops[-1]
    if value is induction(inner):
        from_0_by_1 = (constant_of(uses, inner.start), constant_of(uses, inner.step)) == (0, 1)
        return step is _counts and first == 0 and len(loops) == 1 and from_0_by_1
    after: Value | None = None
    for loop in reversed(loops):
        carry = loop_carry(loop, value)
        if carry is None or not (step(uses, value, carry.after) if after is None else carry.after is after):
            return False
        value, after = carry.init, carry.result
    return constant_of(uses, value) == first
