"""Ranks in a cluster, and barriers among CTAs.

Input: a task at an op of `ir/ops/cluster.py`. Output: ranks in the task's environment; at a barrier the task stays until all come.

    cluster_barrier(task, op)      all warps of the task arrive, then it waits for those of all CTAs of its cluster
"""

from __future__ import annotations

import numpy as np

from ..machine.rendezvous import CtaBarrier, arrive_and_wait
from ..machine.table import handles


@handles("cluster_cta_rank")
def cluster_cta_rank(task, op):
    task.env[op.result] = np.int32(task.cta.rank)


@handles("cluster_size_1d")
def cluster_size_1d(task, op):
    task.env[op.result] = np.int32(len(task.cta.cluster.ctas))


@handles("cluster_barrier")
def cluster_barrier(task, op):
    yield from arrive_and_wait(task, op, task.cta.cluster.barrier, task.num_warps)


@handles("fence_mbarrier_init")
def fence_mbarrier_init(task, op):
    """Changes no value here: a barrier exists for everybody as soon as it is made. What it makes visible, the order knows."""
    task.machine.order.fence_init(task)


@handles("group_barrier")
def group_barrier(task, op):
    if task.cta.rank in op.attrs["ranks"]:
        yield from arrive_and_wait(task, op, task.cta.cluster.barrier_of(op.attrs["ranks"]))


@handles("grid_barrier")
def grid_barrier(task, op):
    machine, gpu = task.machine, task.cta.gpu
    if gpu.grid_barrier is None:
        gpu.grid_barrier = CtaBarrier(f"the grid{gpu.label}", [cta for cta in machine.ctas.values() if cta.gpu is gpu])
    machine.order.mix()
    yield from arrive_and_wait(task, op, gpu.grid_barrier)
