"""Memory for mbarriers: initialised, used, invalidated, and used again.

Input: a task at a `barrier_memory`, `barrier_init` or `barrier_invalidate`. Output: mbarriers that are there or are none. For
example:

    %bars = barrier_memory 2; %full = barrier_index %bars 0; barrier_init %full 1; ..; barrier_invalidate %full

The memory of an op is one in a CTA, however often the op runs: Triton allocates once for all trips of a loop.
"""

from __future__ import annotations

from ...errors import BarrierMisuse, fail
from ..machine.table import handles
from ..machine.tasks import Task
from ..memory.barrier_lives import Life
from ..memory.mbarriers import Mbarrier


@handles("barrier_memory")
def barrier_memory(task, op):
    barriers = task.cta.barriers.get(op.result)
    if barriers is None:
        barriers = tuple(Mbarrier(op.result, index, 0, op.site, life=Life(op.site)) for index in range(op.count))
    else:
        for barrier in barriers:
            barrier.life.end(barrier, task, op)
    task.env[op.result] = task.cta.barriers[op.result] = barriers


@handles("barrier_init", switches=True)
def barrier_init(task, op):
    barrier = _place(task, op)
    barrier.life.begin(barrier, task, op)


@handles("barrier_invalidate", switches=True)
def barrier_invalidate(task, op):
    barrier = _place(task, op)
    barrier.life.check(barrier, task, op)
    barrier.life.end(barrier, task, op)


def _place(task: Task, op) -> Mbarrier:
    """The one barrier of `op`, which may be initialised or not: a single one, or an array of one."""
    barriers = task.env[op.barrier]
    if not isinstance(barriers, Mbarrier):
        barriers, = barriers
    if barriers.life is None:
        raise fail(BarrierMisuse, task, op, f"{op.name} of {barriers.name}, which alloc_barriers has initialised for as long as "
                   "the kernel runs", barriers.made, hint="begin and end barriers of a barrier_memory")
    return barriers
