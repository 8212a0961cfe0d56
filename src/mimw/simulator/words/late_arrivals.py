"""Arrivals on a barrier that cp.async brings, once all copies that a task has started until then have landed.

Input: a task at `copies_arrive`. Output: arrivals, now or when the last of these copies lands. For example:

    async_load %x %tile; copies_arrive %full 128       128 threads: each arrives when its own copies are there

PTX ISA, "cp.async.mbarrier.arrive": the arrival tells of the copies, and of nothing else that its thread has done. Without `.noinc`
the phase first waits for as many arrivals more, so that in the end none is counted.
"""

from __future__ import annotations

from ..machine.table import handles
from ..machine.tasks import InFlight
from ..memory.mbarriers import Mbarrier, single


@handles("copies_arrive", switches=True)
def copies_arrive(task, op):
    barrier, order = single(task, op, op.barrier), task.machine.order
    started = [copy for group in (*task.groups, task.copies) for copy in group]
    if op.attrs.get("raises"):
        barrier.arrived -= op.count
    left = [copy for copy in started if not copy.landed]
    for copy in started:
        if copy.landed and copy.group:
            _tells(copy, barrier, order)
    if not left:
        barrier.arrive_late(op.count, task, op)
    waiting = set(left)
    for copy in left:
        barrier.expect(copy)
        copy.land = _landing(copy.land, barrier, waiting, op)


def _landing(before, barrier: Mbarrier, waiting: set[InFlight], op):
    """The landing of a copy, behind which the barrier hears of it; behind the last of them the arrivals come."""

    def land(copy: InFlight) -> None:
        before(copy)
        waiting.discard(copy)
        barrier.coming.remove(copy)
        if copy.group:
            _tells(copy, barrier, copy.machine.order)
        if not waiting:
            barrier.arrive_late(op.count, copy.task, op)

    return land


def _tells(copy: InFlight, barrier: Mbarrier, order) -> None:
    """Let who waits for the barrier's phase know that the copy is over: only of the first barrier that hears of it."""
    order.land(copy, barrier)
    copy.group = ""
