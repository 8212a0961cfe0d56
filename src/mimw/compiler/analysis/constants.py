"""Scalars whose value is certain: constants, arithmetic on constants, and values in the first round of the loops around them.

Input: the def-use index and a value. Output: a number, or None. For example, for `i` of `for i in range(n)`:

    constant_of(uses, i % 1)       0
    first_value(uses, i)           0, where constant_of gives None

Without a cluster a CTA's rank is 0, so an op under `if cluster_cta_rank() != 0` surely never runs (`never_runs`).
"""

from __future__ import annotations

from ...ir import Op, Scalar, Value
from ...ir.flow import bounds, entering
from .uses import Uses

_DEPTH = 200  # an unrolled counter is a chain of additions; beyond this a value counts as unknown


def constant_of(uses: Uses, value: Value | int | None, rank: int | None = None) -> int | None:
    """The number that `value` always is, or None. An i1 is 0 or 1. With `rank`, the number that it always is in that CTA of its
    cluster."""
    return _evaluator(uses, False, rank).number(value, 0)


def first_value(uses: Uses, value: Value | int | None) -> int | None:
    """The number that `value` is in the first round of every loop around it, or None."""
    return _evaluator(uses, True, None).number(value, 0)


def _evaluator(uses: Uses, in_loops: bool, rank: int | None) -> _Evaluator:
    """The kept evaluator for these arguments: its result for one value helps with all others that follow from that value."""
    if (found := uses.known.get(("numbers", in_loops, rank))) is None:
        found = uses.known["numbers", in_loops, rank] = _Evaluator(uses, in_loops, rank)
    return found


def never_runs(uses: Uses, op: Op) -> bool:
    """True if `op` does nothing for certain: its predicate is false, or it stands in a branch that is never taken or in a loop
    without rounds."""
    if "predicate" in op.row.places and constant_of(uses, op.predicate) == 0:
        return True
    inner = op
    for parent in uses.parents(op):
        if parent.name == "if":
            taken = constant_of(uses, parent.condition)
            if taken is not None and uses.place[inner].index == taken:     # block 0 is for a condition that holds
                return True
        elif parent.name == "for":
            start, end, step = (constant_of(uses, bound) for bound in bounds(parent))
            if None not in (start, end, step) and (start >= end if step > 0 else start <= end):
                return True
        inner = parent
    return False


class _Evaluator:

    def __init__(self, uses: Uses, in_loops: bool, rank: int | None = None):
        self.uses, self.in_loops, self.rank = uses, in_loops, rank
        self.known: dict[Value, int | None] = {}
        self.cut = False    # the chain of this question was too long: what is unknown for it may be known for another one

    def number(self, value, depth: int) -> int | None:
        if not isinstance(value, Value):
            return int(value) if isinstance(value, int) else None
        if value in self.known:
            return self.known[value]
        if not isinstance(value.type, Scalar) or value.type.is_float:
            return None
        if depth > _DEPTH:
            self.cut = True
            return None
        if depth == 0:
            self.cut = False
        found = _in_range(self.compute(value, depth + 1), value.type.bits)
        if found is not None or not self.cut:
            self.known[value] = found
        return found

    def compute(self, value: Value, depth: int) -> int | None:
        op = self.uses.definition[value]
        if op is None:
            return self.number(self.entering(value), depth) if self.in_loops else None
        if op.name == "constant":
            return int(op.value)
        if op.name == "int_cast":
            return self.number(op.value, depth)
        if self.rank is not None and (found := self.of_cluster(op)) is not None:
            return found
        if op.name == "cluster_size_1d":
            return self.uses.program.cluster_size
        if op.name == "cluster_cta_rank":
            return 0 if self.uses.program.cluster_size == 1 else None
        row = op.row
        if row.folds is None:
            return None
        lhs, rhs = self.number(op.lhs, depth), self.number(op.rhs, depth)
        if rhs == 1 and "remainder" in row.traits:
            return 0
        if lhs is None or rhs is None:
            return None
        if row.traits & {"quotient", "remainder"} and (rhs <= 0 or lhs < 0):
            return None
        return row.folds(lhs, rhs)

    def of_cluster(self, op: Op) -> int | None:
        """The constant result of `op` in the CTA `rank` where rank and cluster size determine it: the rank, or `program_id %
        size`; else None."""
        cluster = self.uses.program.cluster
        if op.name == "cluster_cta_rank":
            return self.rank
        if "remainder" in op.row.traits and cluster[1:] == (1, 1) and constant_of(self.uses, op.rhs) == cluster[0]:
            numbered = self.uses.definition[op.lhs]
            return self.rank if numbered is not None and numbered.name == "get_program_id" and numbered.axis == 0 else None
        return None

    def entering(self, value: Value):
        """The value of a loop's block argument in the first round; None if `value` is no such argument."""
        place = self.uses.argument.get(value)
        loop = place.parent if place else None
        return entering(loop, value) if loop is not None and "loop" in loop.row.traits else None


def _in_range(number: int | None, bits: int) -> int | None:
    """A number that would wrap counts as unknown; an i1 may be written as -1 for true."""
    if number is None or bits == 1:
        return None if number is None else number & 1
    return number if -(1 << bits - 1) <= number < 1 << bits - 1 else None
