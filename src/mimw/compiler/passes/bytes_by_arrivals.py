"""Bytes that barriers wait for, on a chip whose barriers count arrivals only: copies that are done arrive.

Input: a program and its target. Output: the program in which a copy that completes bytes is one that is there when it is over, and
an arrival behind it; the same object where barriers count bytes. For example, on gfx942:

    barrier_expect %full, 16384                      tma_fetch %a, .., %tile_a
    tma_load %a, .., %full, %tile_a       becomes    tma_fetch %b, .., %tile_b
    tma_load %b, .., %full, %tile_b                  barrier_arrive %full, 1

The arrival of an expect moves behind the copies that bring its bytes, if these stand in the expect's own block: a phase cannot
complete before them anyway. Where copies of a barrier stand elsewhere (under an `if`, in another task), bytes become arrivals in
units of the most bytes that divides all of them: a copy arrives for its units, and the barrier waits for as many more.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import gcd

from ...errors import TargetError, excerpt
from ...ir import Block, Builder, Op, Program, Site, Value
from ...target import Target
from ..analysis import BarrierAccess, BarrierArray, Symbols, Uses, barrier_arrays, uses_of
from .check_bytes import check_bytes

_MOST_ARRIVALS = (1 << 15) - 1      # of a phase: what half a word of a barrier in LDS counts


def bytes_by_arrivals(program: Program, target: Target) -> Program:
    """The program without bytes that a barrier waits for. TargetError where the bytes of a phase cannot be told."""
    if "mbarrier" not in target.mapped or not program.where(lambda row: row.barrier in ("expect", "complete")):
        return program
    check_bytes(program, target)
    plan = _Plan(target, uses_of(program))
    for array in barrier_arrays(program):
        plan.add(array)
    return replace(program, body=_Writer(plan).block(program.body))


@dataclass
class _Plan:
    """The change of each op: `arrivals` of a barrier behind an op, as (barrier, count, predicate), and `counts`, the arrivals of
    a phase of each array that changes."""

    target: Target
    uses: Uses
    arrivals: dict[Op, tuple[Value, int, Value | None]] = field(default_factory=dict)
    counts: dict[Op, int] = field(default_factory=dict)

    def add(self, array: BarrierArray) -> None:
        traffic = array.of_kind("expect", "complete")
        if not traffic:
            return
        if array.escapes:
            self.refuse(array.op.site, f"a barrier of '{array.name}' is passed on by an `if` or a loop, so the bytes that arrive "
                        "on it cannot be counted", "index the array where the barrier is used")
        if array.root.type.per_thread:
            self.refuse(array.op.site, f"each thread arrives for itself on '{array.name}', so no single arrival can count bytes",
                        "let the copies complete on a barrier of alloc_barriers")
        groups = self.grouped(traffic)
        if groups is not None:
            for group in groups:
                expect = next(one for one in group if one.kind == "expect")
                self.arrivals[group[-1].op] = expect.op.barrier, 1, expect.predicate
            return
        self.in_units(array, traffic)

    def grouped(self, traffic: tuple[BarrierAccess, ...]) -> list[list[BarrierAccess]] | None:
        """The accesses as groups of one expect and the copies of its bytes, each in one block; None if that is not all of them."""
        symbols, open_, groups = Symbols(self.uses), {}, []
        for one in traffic:
            index = symbols.of(one.index)
            predicate = symbols.of(one.predicate) if one.predicate is not None else ("always", )
            if one.bytes is None or index is None or predicate is None:
                return None
            key = id(self.uses.place[one.op].block), index, predicate
            group = open_.setdefault(key, [])
            group.append(one)
            expected = sum(each.bytes for each in group if each.kind == "expect")
            if [each.kind for each in group].count("expect") == 1 and expected == \
                    sum(each.bytes for each in group if each.kind == "complete"):
                groups.append(open_.pop(key))
        return None if open_ else groups

    def in_units(self, array: BarrierArray, traffic: tuple[BarrierAccess, ...]) -> None:
        expects, copies = ([one for one in traffic if one.kind == kind] for kind in ("expect", "complete"))
        sizes = {one.bytes for one in expects}
        if not expects or len(sizes) > 1 or any(one.bytes is None for one in copies):
            self.untold(array, traffic)
        others = array.of_kind("arrive", "commit")
        if others and len(expects) > 1:
            self.untold(array, traffic)
        unit = gcd(*(one.bytes for one in traffic))
        rounds = 1 if others else array.arrive_count
        total = array.arrive_count + rounds * next(iter(sizes)) // unit
        if total > _MOST_ARRIVALS:
            self.untold(array, traffic)
        self.counts[array.op] = total
        for one in traffic:
            count = 1 if one.kind == "expect" else one.bytes // unit
            self.arrivals[one.op] = one.op.barrier, count, one.predicate

    def untold(self, array: BarrierArray, traffic: tuple[BarrierAccess, ...]) -> None:
        lines = ", ".join(f"{one.op.row.word} at {one.op.site}" for one in traffic)
        what = f"the bytes of a phase of '{array.name}' differ, or stand apart from their copies ({lines})"
        self.refuse(traffic[0].op.site, what,
                    "expect the bytes in front of their copies, in the same block, under the same `pred`")

    def refuse(self, site: Site, what: str, mend: str) -> None:
        raise TargetError(f"TargetError at {site}: barriers of {self.target} count arrivals, no bytes, and {what}.\n"
                          f"Mend: {mend}.\n{excerpt(site)}".rstrip())


class _Writer:
    """Rebuilds blocks by a plan."""

    def __init__(self, plan: _Plan):
        self.plan, self.builder = plan, Builder()

    def block(self, block: Block) -> Block:
        outside = self.builder.open()
        for op in block.ops:
            self.op(op)
        return block.with_ops(self.builder.close(outside))

    def op(self, op: Op) -> None:
        builder, plan = self.builder, self.plan
        if op.row.barrier == "complete" and op.row.needs in plan.target.mapped:
            self.fetch(op)
        elif op in plan.counts:
            builder.ops.append(op.with_operands(arrive_count=plan.counts[op]))
        elif op.row.barrier != "expect":
            builder.ops.append(op.with_blocks(self.block))
        if op in plan.arrivals:
            barrier, count, predicate = plan.arrivals[op]
            builder.emit("barrier_arrive", (barrier, count, predicate), op.site)

    def fetch(self, op: Op) -> None:
        """The copy as one that is there when it is over, under the predicate of the copy."""
        builder = self.builder
        if op.predicate is None:
            self.copy(op)
            return
        builder.site = op.site
        branch = builder.place("if", op.predicate, ())
        with builder.inside(branch):
            self.copy(op)
            builder.emit("yield", ((), ), op.site)
        with builder.inside(branch):
            builder.emit("yield", ((), ), op.site)

    def copy(self, op: Op) -> None:
        if "rows" in op.row.places:
            self.builder.emit("tma_fetch_rows", (op.descriptor, op.rows, op.column, op.buffer), op.site)
        else:
            self.builder.emit("tma_fetch", (op.descriptor, op.offsets, op.buffer, op.cache_policy), op.site)
