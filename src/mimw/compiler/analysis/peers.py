"""Arrivals across a cluster: each array of barriers as each CTA of the cluster sees its own copy.

Input: a `BarrierArray`, whose accesses may be on the barriers of other CTAs. Output: one array for each CTA, or one for all
CTAs if they see the same; an arrival or a copy counts once for every CTA that brings it:

    barrier_arrive(empty[0], remote_cta_rank=rank ^ 1)     in a cluster of 2: each CTA gets one, from the other
    multicast_targets=[0, 1]                               each CTA gets the block twice, as both CTAs send it

All CTAs run one program. The sum is known where every CTA passes each access equally often, or where the rank alone decides
which CTAs pass the access; an array without this certainty `escapes`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...ir import Op, Program, Value
from ...ir.flow import bounds, loop_carry
from .barriers import BarrierAccess, BarrierArray, barrier_arrays
from .constants import constant_of
from .uses import Uses, uses_of


def barriers_of_each_cta(program: Program, uses: Uses | None = None) -> Iterator[BarrierArray]:
    """The arrays of the program, each as the CTAs of a cluster see it."""
    uses = uses or uses_of(program)
    cluster = _Cluster(uses)
    for array in barrier_arrays(program, uses):
        yield from cluster.views(array)


class _Cluster:
    """The CTAs of one program's cluster."""

    def __init__(self, uses: Uses):
        self.uses, self.ranks = uses, range(uses.program.cluster_size)
        self.same: dict[Value, bool] = {}           # value -> whether all CTAs have the same; taken to be so while it is asked

    def views(self, array: BarrierArray) -> tuple[BarrierArray, ...]:
        if array.escapes or all(one.peers is None for one in array.accesses):
            return (array, )
        if not all(self.followed(one) for one in array.accesses):
            return (replace(array, escapes=True), )
        views: dict[tuple[BarrierAccess, ...], list[int]] = {}
        for rank in self.ranks:
            views.setdefault(tuple(view for one in array.accesses for view in self.seen(one, rank)), []).append(rank)
        return tuple(replace(array, accesses=accesses, ranks=tuple(ranks) if len(views) > 1 else ())
                     for accesses, ranks in views.items())

    def followed(self, one: BarrierAccess) -> bool:
        """True if the analysis knows which CTAs pass the access, how often relative to each other, and on which barrier."""
        for parent in self.uses.parents(one.op):
            if parent.name == "if" and not self.decided(parent.condition):
                return False
            if parent.name == "while" or parent.name == "for" and not all(map(self.uniform, bounds(parent))):
                return False
        return one.index is None or self.decided(one.index)

    def decided(self, value) -> bool:
        """True if a value is the same in all CTAs, or known in each CTA."""
        return self.uniform(value) or all(constant_of(self.uses, value, rank) is not None for rank in self.ranks)

    # ---- one access ---------------------------------------------------------------------------------------------------------

    def seen(self, one: BarrierAccess, rank: int) -> list[BarrierAccess]:
        """The access on the barriers of CTA `rank`, once for each barrier that it may be: none, if it never gets there."""
        sources = (rank, ) if one.peers is None else self.ranks
        groups: dict[Value | int | None, list[bool | None]] = {}
        for source in sources:
            reaches = self.reaches(one, source, rank)
            if reaches:
                index = one.index if one.index is None or self.uniform(one.index) else constant_of(self.uses, one.index, source)
                groups.setdefault(index, []).extend(reaches)
        return [self.together(one, index, found) for index, found in groups.items()]

    def together(self, one: BarrierAccess, index, found: list[bool | None]) -> BarrierAccess:
        """The access merged over CTAs that certainly (True) or perhaps (None) reach a barrier. An uncertain access counts as
        an arrival, since too many arrivals are no reason to refuse a program; its number of bytes is unknown."""
        certain, times = all(found), len(found)
        size = one.bytes * times if certain and one.bytes is not None else None
        unknown = one.predicate is not None and self.taken(one) is None
        return replace(one, index=index, count=one.count * times, times=times, bytes=0 if one.bytes == 0 else size,
                       predicate=one.predicate if unknown else None)

    def taken(self, one: BarrierAccess) -> bool | None:
        """True if the predicate holds wherever it is not known to fail."""
        numbers = [constant_of(self.uses, one.predicate, rank) for rank in self.ranks]
        return None if None in numbers else True

    def reaches(self, one: BarrierAccess, source: int, rank: int) -> list[bool | None]:
        """The accesses to barriers of CTA `rank` that the op makes when CTA `source` runs it: one True each, None for an
        access that is not certain."""
        if not self.runs(one.op, source):
            return []
        if one.predicate is not None and constant_of(self.uses, one.predicate, source) == 0:
            return []
        if one.peers is None:
            return [True]
        targets = {constant_of(self.uses, peer, source) for peer in one.peers}
        if "pair_load" in one.op.row.traits:    # what lands in a CTA counts on the barrier of the even one of its pair
            return [None if target is None else True for target in targets if target is None or target - target % 2 == rank]
        return [True] if rank in targets else [None] if None in targets else []

    def runs(self, op: Op, rank: int) -> bool:
        """False if a condition around the op is known to fail in CTA `rank`."""
        place = self.uses.place[op]
        while place.parent is not None:
            if place.parent.name == "if":
                number = constant_of(self.uses, place.parent.condition, rank)
                if number is not None and bool(number) != (place.index == 0):
                    return False
            place = self.uses.place[place.parent]
        return True

    # ---- what all CTAs have in common ---------------------------------------------------------------------------------------

    def uniform(self, value) -> bool:
        """True if a scalar certainly has the same value in all CTAs of a cluster, at the same point of the program."""
        if not isinstance(value, Value):
            return True
        if value not in self.same:
            before = set(self.same)
            self.same[value] = True
            found = self._uniform(value)
            if not found:       # what was found on the assumption that it is the same need not be so
                self.same = {other: same for other, same in self.same.items() if other in before or not same}
            self.same[value] = found
        return self.same[value]

    def _uniform(self, value: Value) -> bool:
        op = self.uses.definition[value]
        if op is None:
            return self._argument(value)
        if op.name == "for":
            carry = loop_carry(op, value)
            return all(map(self.uniform, (*bounds(op), carry.init, carry.after)))
        if op.name == "if":
            index = op.results.index(value)
            return all(map(self.uniform, (op.condition, *(block.yielded[index] for block in op.blocks))))
        if op.name == "get_program_id":
            return self.uses.program.cluster[op.axis] == 1
        if "quotient" in op.row.traits and self._whole_clusters(op.lhs, op.rhs):
            return True
        return "pure" in op.row.effects and "by_cta" not in op.row.traits and not op.blocks and all(
            map(self.uniform, op.operands))

    def _whole_clusters(self, number: Value, divisor: Value) -> bool:
        """`program_id // n`, with n a multiple of the cluster's extent along that axis: a cluster starts at such a multiple."""
        op, whole = self.uses.definition[number], constant_of(self.uses, divisor)
        return op is not None and op.name == "get_program_id" and bool(whole) and whole % self.uses.program.cluster[op.axis] == 0

    def _argument(self, value: Value) -> bool:
        place = self.uses.argument.get(value)
        if place is None:
            return True
        loop = place.parent
        if loop is None or loop.name != "for":
            return False
        carry = loop_carry(loop, value)
        carried = (carry.init, carry.after) if carry is not None else ()
        return all(map(self.uniform, (*bounds(loop), *carried)))
