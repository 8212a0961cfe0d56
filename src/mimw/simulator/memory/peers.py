"""Other CTAs of a cluster: the same barrier, or the same part of the same buffer, in the CTA of a given rank.

Input: a task, a rank, and a barrier or a view of the task's own CTA. Output: that of the other CTA, or an error if that CTA has
left.

    view_of(peer(task, op, op.rank), task.env[op.buffer], task, op)      the same elements there
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...errors import BarrierNotReady, OutOfBounds, PeerExited, fail
from ..machine.operands import position
from ..machine.tasks import Cta, Task
from .mbarriers import Mbarrier
from .views import View


def peer(task: Task, op, rank) -> Cta:
    """The CTA of that rank in the task's cluster, if it is still there."""
    number, ctas = position(task, op, rank), task.cta.cluster.ctas
    if not 0 <= number < len(ctas):
        raise fail(OutOfBounds, task, op, f"{op.name} names the CTA with rank {number} of a cluster of {len(ctas)}")
    check_there(ctas[number], task, op, f"{op.name} touches")
    return ctas[number]


def check_there(cta: Cta, task: Task, op, what: str) -> None:
    if not cta.live:
        raise fail(PeerExited, task, op, f"{what} {cta}, which has left the kernel",
                   hint="keep it there: let it wait for the data that it receives, or call cluster_barrier in all CTAs")


def barrier_of(cta: Cta, barrier: Mbarrier, task: Task, op) -> Mbarrier:
    """The same barrier in `cta`."""
    if barrier.root not in cta.barriers:
        raise fail(BarrierNotReady, task, op, f"{op.name} touches {barrier.name} of {cta} before it is made there",
                   barrier.made, hint="allocate it outside of loops and tasks, or call cluster_barrier after the allocation")
    there = cta.barriers[barrier.root][barrier.index]
    there.check(task, op)
    task.machine.order.used(task, op, there, remote=cta is not task.cta)
    return there


def view_of(cta: Cta, view: View, task: Task, op) -> View:
    """The same part of the same buffer in `cta`."""
    root = next(value for value, whole in task.cta.memory.items() if whole.allocation is view.allocation)
    if root not in cta.memory:
        raise fail(OutOfBounds, task, op, f"{op.name} touches {view.name} of {cta} before it is allocated there",
                   hint="allocate it outside of loops and tasks, or call cluster_barrier after the allocation")
    there = cta.memory[root]
    return replace(view, allocation=there.allocation, data=_same_place(view.data, there.data),
                   marks=_same_place(view.marks, there.marks))


def _same_place(part: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The elements of `other`'s memory that lie where those of `part` lie in its own."""
    start = part.__array_interface__["data"][0] - _memory(part).__array_interface__["data"][0]
    return np.ndarray(part.shape, part.dtype, _memory(other), start, part.strides)


def _memory(array: np.ndarray) -> np.ndarray:
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


