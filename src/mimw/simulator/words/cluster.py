"""Ranks in a cluster, and barriers among CTAs.

Input: a task at an op of `ir/ops/cluster.py`. Output: ranks in the task's environment; at a barrier the task stays until all come.

    cluster_barrier(task, op)      all warps of the task arrive, then it waits for those of all CTAs of its cluster
"""

from __future__ import annotations

import numpy as np

from ...errors import PeerExited, fail
from ..machine.rendezvous import CtaBarrier, Rendezvous, arrive_and_wait
from ..machine.table import handles


@handles("cluster_cta_rank")
def cluster_cta_rank(task, op):
    task.env[op.result] = np.int32(task.cta.rank)


@handles("cluster_size_1d")
def cluster_size_1d(task, op):
    task.env[op.result] = np.int32(len(task.cta.cluster.ctas))


@handles("cluster_barrier")
def cluster_barrier(task, op):
    barrier = _barrier(task, op)
    mine = task.cta.cluster.barrier is barrier and not op.attrs.get("all_warps")
    yield from arrive_and_wait(task, op, barrier, task.num_warps if mine else barrier.owed)


def _barrier(task, op) -> Rendezvous:
    """The barrier at which CTAs meet for an op: of all warps, or, with `task`, of the tasks of one code."""
    number = op.attrs.get("task")
    return task.cta.cluster.barrier if number is None else task.cta.cluster.barrier_in(number, task.name)


@handles("cluster_tile")
def cluster_tile(task, op):
    """Each CTA lays its parts down before it comes, and takes those of the others when all have come. Nobody lays down more before
    all have gone on: until then the barrier has one phase."""
    barrier, rank, bits = _barrier(task, op), task.cta.rank, op.attrs["bits"]
    laid = barrier.laid.setdefault(barrier.phase, {})
    laid[rank] = op, [task.read(value, op) for value in op.values]
    barrier.laid.pop(barrier.phase - 2, None)
    yield from arrive_and_wait(task, op, barrier, barrier.owed)
    ranks = {_rank(rank, bits, number) for number in range(1 << sum(map(bool, bits)))}
    for number in ranks:
        if number not in laid or laid[number][0] is not op:
            raise fail(PeerExited, task, op, f"{barrier.ctas[number]} does not come to this op, by which the CTAs of its cluster "
                       "put a tile together", hint="let all CTAs of a cluster run the same code")
    for place, (value, result) in enumerate(zip(op.values, op.results, strict=True)):
        shape = getattr(result.type, "shape", ())
        if not shape or not any(bits):
            task.env[result] = laid[_rank(rank, bits, 0)][1][place]
            continue
        whole = np.empty(shape, np.asarray(laid[rank][1][place]).dtype)
        for number in ranks:
            whole[_inside(shape, bits, number)] = laid[number][1][place]
        task.env[result] = whole


@handles("cluster_part")
def cluster_part(task, op):
    for value, result in zip(op.values, op.results, strict=True):
        task.env[result] = np.broadcast_to(task.read(value, op), value.type.shape)[
            _inside(value.type.shape, op.attrs["bits"], task.cta.rank)]


def _rank(own: int, bits: tuple, number: int) -> int:
    """The rank of the CTA whose part is needed: `number` counts through those that the bits put together."""
    found = 0
    for place, bit in enumerate(bits):
        if bit:
            found, number = found | (number & 1) << place, number >> 1
        elif bit is None:
            found |= own & 1 << place
    return found


def _inside(shape: tuple[int, ...], bits: tuple, rank: int) -> tuple[np.ndarray, ...]:
    """The coordinates along each axis at which the CTA of that rank has its part of a tile of `shape`."""
    taken = []
    for axis, extent in enumerate(shape):
        at = np.arange(extent)
        for place, bit in enumerate(bits):
            if bit and bit[0] == axis:
                at = at[at >> bit[1] & 1 == rank >> place & 1]
        taken.append(at)
    return np.ix_(*taken)


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
