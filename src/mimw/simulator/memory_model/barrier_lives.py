"""The order of what begins and ends a barrier, and of what uses it between (docs/MEMORY_MODEL.md, rule 49).

Input: what the handlers tell of initialising, using and invalidating a barrier of a `barrier_memory`. Output: nothing while each
use comes after the initialisation and before the invalidation, and a `BarrierMisuse` at the op that is not ordered. For example:

    order.begins(task, init, barrier)       behind what has invalidated it, if anything has
    order.used(task, wait, barrier)         behind `init` (`barriers.py`); remembered, the latest of each strand
    order.ends(task, invalidate, barrier)   behind all these uses, and behind the copies that have landed
"""

from __future__ import annotations

from typing import Any

from ...errors import BarrierMisuse, fail
from ...ir import Op
from .clocks import Epoch

Use = tuple[Any, Op, Epoch]         # the task of a use of a barrier, the op, and when it was over


class LivesOrder:
    """The part of `Order` about barriers that begin and end."""

    def begins(self, task, op: Op, barrier) -> None:
        """`task` initialises a barrier, of whose earlier lives it must know that they are over."""
        known = barrier.known
        if known is not None and known.ended is not None:
            ended_by, ended, epoch = known.ended
            if not epoch.before(task.strand.clock):
                raise fail(BarrierMisuse, task, op, f"{op.name} initialises {barrier.name}, and nothing orders that after the "
                           f"{ended.name} of {ended_by.where} at {ended.site}", ended.site,
                           hint=f"let {ended_by.where} arrive on another barrier behind {ended.site}, and wait for that before "
                           f"{op.site}")
        self.made(task, barrier, barrier if known is not None else None)
        barrier.known.uses = {}

    def _use(self, barrier, task, op: Op, epoch: Epoch) -> None:
        """A use of the barrier is over at `epoch`: of a task, or of an operation that has landed. Later ones of a strand know of
        the earlier ones."""
        uses = barrier.known.uses
        if uses is not None:
            uses[epoch.strand] = task, op, epoch

    def ends(self, task, op: Op, barrier) -> None:
        """`task` invalidates a barrier, or gives its memory to another one: it must know that all uses are over."""
        clock = task.strand.clock
        for user, use, epoch in barrier.known.uses.values():
            if not epoch.before(clock):
                does = "allocates again the memory of" if op.row.allocates else "invalidates"
                landed = use.row.barrier in _LAND
                before = f"the landing of the {use.name}" if landed else f"the {use.name}"
                mend = f"wait before {op.site} for the phase in which it lands" if landed else (
                    f"let {user.where} arrive on another barrier behind {use.site}, and wait for that before {op.site}")
                raise fail(BarrierMisuse, task, op, f"{op.name} {does} {barrier.name}, and nothing orders that after {before} of "
                           f"{user.where} at {use.site}", use.site, barrier.made, hint=mend)
        barrier.known.ended, barrier.known.uses = (task, op, task.strand.epoch), {}


_LAND = ("complete", "commit")      # what these ops do to a barrier is over when they land, not when they are issued


def is_over_at_once(op: Op) -> bool:
    """True if what `op` does to its barrier is done when its task goes on."""
    return op.row.barrier not in _LAND
