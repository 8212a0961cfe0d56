"""Resolution of barrier values to their allocations: the one place that follows barriers through views and control flow.

Input: a program. Output: a `BarrierRef` for each value that is a barrier or an array of barriers. For example:

    %full = alloc_barriers 2, 1
    %slot = barrier_index %full, %i                  barrier_refs(program)[%slot]    BarrierRef(%full, index=%i)
    for .. [%slot] { body(%now) .. yield %other }    barrier_refs(program)[%now]     BarrierRef(%full, index=None, carried=True)

Two readers treat a barrier that a loop or a branch hands on differently. The checks read `barriers`, which must know every
arrival: an array of which one barrier is handed on `escapes`, and the checks conclude nothing about it. Reports read
`barrier_ops`, for which the array is enough, since a report may name a line that is only possibly the cause.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...ir import Barrier, Block, Op, Program, Value
from ...ir.flow import carries, terminator


@dataclass(frozen=True)
class BarrierRef:
    """`root` is the value of the array. `index` is the place there, as the kernel has it: a number, a value, or None for the whole
    array and where it differs from round to round. `carried`: control flow hands the barrier on. `deep`: a slot of a slot."""

    root: Value
    index: Value | int | None = None
    carried: bool = False
    deep: bool = False


def barrier_refs(program: Program) -> dict[Value, BarrierRef]:
    """The `BarrierRef` of each barrier value of the program. Callers must not change the dictionary, which is kept with the
    program."""
    return program.kept(_barrier_refs)


def _barrier_refs(program: Program) -> dict[Value, BarrierRef]:
    refs: dict[Value, BarrierRef] = {}

    def hand_on(op: Op, holder: Op | None) -> None:
        """Give each barrier that `holder` hands on in `op` its array; the index becomes unknown, since it differs from round
        to round."""
        for carry in carries(op):
            if carry.op is holder and isinstance(carry.source.type, Barrier):
                source = refs.get(carry.source, BarrierRef(carry.source))
                refs.setdefault(carry.target, replace(source, index=None, carried=True))

    def visit(block: Block) -> None:
        for op in block.ops:
            if op.row.allocates == "barriers":
                refs[op.result] = BarrierRef(op.result)
            elif op.row.view == "slot" and isinstance(op.result.type, Barrier):
                array = refs.get(op.barrier, BarrierRef(op.barrier))
                refs[op.result] = replace(array, index=op.index, deep=op.barrier is not array.root)
            if op.blocks:
                hand_on(op, op)
            for inner in op.blocks:
                visit(inner)
                hand_on(op, terminator(inner))

    visit(program.body)
    return refs
