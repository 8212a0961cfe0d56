"""What goes over the links between simulated GPUs, as lanes of the timeline.

Input: accesses of a task to memory, as `GlobalMemory.touch` and its like are told of them. Output: an event on the lane of the link
for each access to another rank's memory. For example, a store of 4096 bytes by rank 0 into memory of rank 1, and a load back:

    lane "rank 0 to rank 1"     copy  store x_ptr  4096 bytes
    lane "rank 1 to rank 0"     copy  load x_ptr   4096 bytes, which rank 0 reads

The width of a bar is that of as many bytes on an SM's own copy unit: read the lanes for order and for how much goes where, never
for time. Tasks do not wait for links.
"""

from __future__ import annotations

from typing import Any

from ...ir.trace import LINKS, Event, Trace
from ..costs.abstract import transfer


class Links:
    """The lanes of one run in its trace; of each link the time up to which it is taken."""

    def __init__(self, trace: Trace):
        self.trace = trace
        self._taken: dict[str, float] = {}

    def crosses(self, actor: Any, op: Any, owner: int | None, size: int, *, write: bool) -> None:
        """`actor` accesses `size` bytes of the rank `owner`."""
        task = actor.task
        own = task.cta.gpu.rank
        if owner in (None, own) or not size:
            return
        lane = f"rank {own} to rank {owner}" if write else f"rank {owner} to rank {own}"
        start = max(task.clock, self._taken.get(lane, 0.0))
        end = self._taken[lane] = start + transfer(size)
        label = f"{op.row.word or op.name}, {task.where}"
        self.trace.events.append(Event(LINKS, lane, "copy", start, end, label, op.site, size))
