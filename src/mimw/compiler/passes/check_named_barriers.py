"""Named barriers that the compiler needs itself, and those that a chip cannot make.

Input: a program and its target. Output: nothing, or a `ProtocolError` with the author's line and the numbers that are free:

    tlx.named_barrier_wait(1, 128)       refused in a kernel with tasks: 1 starts and ends them

On NVIDIA Triton's lowering takes hardware barrier 0 for the whole CTA or the default task; in a kernel with tasks 1 to start and
end regions, and one from 2 on for each task besides the default one, in order, whatever its number of warps.
"""

from __future__ import annotations

from ...errors import ProtocolError
from ...ir import Op, Program
from ...target import Target
from ..analysis.registers import regions

_LAST = 15


def check_named_barriers(program: Program, target: Target) -> None:
    """Raise `ProtocolError` at the first named barrier with a number that the compiler takes; on AMD at the first with another
    count than before."""
    if target.assembly != "ptx":
        return _one_count(program, target)
    workers = max((len(region.blocks) - 1 for region in regions(program)), default=0)
    taken = 2 + workers if workers else 1
    for op in program.where(lambda row: "named" in row.traits):
        if op.barrier < taken:
            _refuse(op, workers, taken)


def _one_count(program: Program, target: Target) -> None:
    first: dict[int, Op] = {}
    for op in program.where(lambda row: "named" in row.traits):
        other = first.setdefault(op.barrier, op)
        if other.threads != op.threads:
            raise ProtocolError(f"named barrier {op.barrier} is for {op.threads} threads here and for {other.threads} at "
                                f"{other.site}; on {target} it is a counter that wraps at a multiple of one number.", op.site,
                                other.site, hint="take another number for the other count, or alloc_barriers.")


def _refuse(op: Op, workers: int, taken: int) -> None:
    number, owners = op.barrier, "0 for the CTA"
    if workers:
        last = f" to {taken - 1}" if workers > 1 else ""
        owners += f", 1 to start and end tasks, 2{last} for the {workers} task{'s' * (workers > 1)} besides the default one"
    hint = f"use {max(8, taken)} to {_LAST}." if taken <= _LAST else "so many tasks leave none: use alloc_barriers."
    raise ProtocolError(f"named barrier {number} is the compiler's here: it takes {owners}.", op.site, hint=hint)
