"""Ranks in a cluster, and barriers among CTAs."""

from __future__ import annotations

import numpy as np

from ..machine.rendezvous import Meeting, meet
from ..machine.table import handles
from ..machine.tasks import Wait


@handles("cluster_cta_rank")
def cluster_cta_rank(task, op):
    task.env[op.result] = np.int32(task.cta.rank)


@handles("cluster_size_1d")
def cluster_size_1d(task, op):
    task.env[op.result] = np.int32(len(task.cta.cluster.ctas))


@handles("cluster_barrier")
def cluster_barrier(task, op):
    yield None
    task.release()
    cluster = task.cta.cluster
    phase = cluster.phase
    task.machine.order.release(task, (cluster, phase))
    task.machine.order.forget((cluster, phase - 2))      # all came to the phase behind it, so they have acquired it
    cluster.arrive(task)
    while cluster.phase == phase:
        cluster.waiters.append(task)
        yield Wait(op, "cluster", cluster, cluster.state)
    task.machine.order.acquire(task, (cluster, phase))
    task.wait_until(cluster.opened_at, op, "cluster barrier")


@handles("fence_mbarrier_init")
def fence_mbarrier_init(task, op):
    """Changes no value here: a barrier exists for everybody as soon as it is made. What it makes visible, the order knows."""
    task.machine.order.fence_init(task)


@handles("group_barrier")
def group_barrier(task, op):
    ranks, cluster = op.attrs["ranks"], task.cta.cluster
    if task.cta.rank not in ranks:
        return
    meeting = cluster.meetings.get(ranks)
    if meeting is None:
        meeting = cluster.meetings[ranks] = Meeting(f"ranks {', '.join(map(str, ranks))}", [cluster.ctas[rank] for rank in ranks])
    yield from meet(task, op, meeting)


@handles("grid_barrier")
def grid_barrier(task, op):
    machine = task.machine
    if machine.grid_meeting is None:
        machine.grid_meeting = Meeting("the grid", list(machine.ctas.values()))
    machine.order.mix()
    yield from meet(task, op, machine.grid_meeting)
