"""Other CTAs' barriers and shared memory: arrivals, stores, copies and multicast loads.

Input: a task at an op of `ir/ops/cluster.py` that names ranks. Output: arrivals there, and operations in flight to there. For
example:

    remote_arrive %free 1 %rank      one arrival on the same barrier of the CTA with that rank

A handle names the same place in every CTA. Ordinary stores to another CTA may land late, at the latest when the task that issued
them releases. Asynchronous ones land when the seed says, and complete their bytes on the receiver's barrier. A CTA that has left
cannot be touched.
"""

from __future__ import annotations

import numpy as np

from ...target import NVIDIA_WARP
from ..costs.abstract import COPY_LATENCY, TMA_LATENCY
from ..machine.operands import enabled, offsets_of, position
from ..machine.table import handles
from ..machine.tasks import Cta, InFlight, Task
from ..memory.mbarriers import Mbarrier, namesake, single
from ..memory.peers import barrier_of, check_there, peer, view_of
from ..memory.views import View
from ..memory_model import ASYNC, GENERIC
from .copies import check_block, issue


def _start(task: Task, op, kind: str, unit: str, latency: float, cta: Cta, view: View, barrier: Mbarrier, tile,
           proxy: str = ASYNC) -> InFlight:
    """Put a copy to `view` of `cta` in flight that completes its bytes on `barrier` there; `tile()` gives its data."""
    size = view.data.nbytes

    def land(copy: InFlight) -> None:
        check_there(cta, task, op, f"the {kind} that it started lands in")
        view.arrive(copy, tile())
        barrier.complete(copy, size)

    copy = issue(task, op, kind, unit, size, latency, land, view.name, destination=view, lands_in=cta,
                 lands_by=barrier.landing(f" of {cta}"))
    view.touch(copy, op, write=True, proxy=proxy)
    barrier.expect(copy)
    view.expect(copy)
    return copy


@handles("remote_view")
def remote_view(task, op):
    task.env[op.result] = single(task, op, op.barrier)


@handles("remote_arrive", switches=True)
def remote_arrive(task, op):
    if not enabled(task, op, op.predicate):
        return
    task.release()
    cta = peer(task, op, op.rank)
    threads = NVIDIA_WARP * task.num_warps if op.barrier.type.per_thread else 1
    barrier_of(cta, namesake(task, op, op.barrier), task, op).arrive(threads * position(task, op, op.count), task, op)
    task.machine.polls = 0


@handles("remote_expect", switches=True)
def remote_expect(task, op):
    if not enabled(task, op, op.predicate):
        return
    task.release()
    cta = peer(task, op, op.rank)
    barrier_of(cta, namesake(task, op, op.barrier), task, op).arrive(1, task, op, size=position(task, op, op.bytes))
    task.machine.polls = 0


@handles("remote_store", switches=True)
def remote_store(task, op):
    cta, tile = peer(task, op, op.rank), task.take(op.value, op)
    view = view_of(cta, task.env[op.buffer], task, op)

    def land(store: InFlight) -> None:
        check_there(cta, task, op, "the remote_shmem_store that it issued lands in")
        view.arrive(store, tile.reshape(view.data.shape))

    view.touch(task, op, write=True)
    store = issue(task, op, "remote_shmem_store", "cluster", view.data.nbytes, COPY_LATENCY, land, view.name, destination=view,
                  group="remote", lands_by=lambda: f"a cluster_barrier, or an arrival of {task.where} on this CTA's barrier")
    view.expect(store)
    task.remote.append(store)


@handles("async_remote_store", switches=True)
def async_remote_store(task, op):
    cta, tile = peer(task, op, op.rank), task.take(op.value, op)
    view = view_of(cta, task.env[op.buffer], task, op)
    _start(task, op, "async_remote_shmem_store", "cluster", COPY_LATENCY, cta, view,
           barrier_of(cta, single(task, op, op.barrier), task, op), lambda: tile.reshape(view.data.shape), GENERIC)


@handles("async_remote_copy", switches=True)
def async_remote_copy(task, op):
    """The source's bytes are read when the copy lands."""
    cta, source = peer(task, op, op.rank), task.env[op.source]
    view = view_of(cta, task.env[op.buffer], task, op)
    copy = _start(task, op, "async_remote_shmem_copy", "cluster", TMA_LATENCY, cta, view,
           barrier_of(cta, single(task, op, op.barrier), task, op),
           lambda: np.ascontiguousarray(source.data).view(np.uint8).reshape(-1).view(view.data.dtype).reshape(view.data.shape))
    source.touch(copy, op, write=False, proxy=ASYNC)
    source.check(task, op)


@handles("tma_load_multicast", switches=True)
def tma_load_multicast(task, op):
    """One copy lands in each target, in any order."""
    if not enabled(task, op, op.predicate):
        return
    descriptor, offsets = task.env[op.descriptor], offsets_of(task, op, op.offsets)
    barrier, view = single(task, op, op.barrier), task.env[op.buffer]
    check_block(task, op, descriptor, offsets, view)
    for rank in sorted({position(task, op, target) for target in op.targets}):
        cta = peer(task, op, rank)
        copy = _start(task, op, "multicast TMA load", "TMA", TMA_LATENCY, cta, view_of(cta, view, task, op),
                      barrier_of(cta, barrier, task, op),
                      lambda: descriptor.read(task.memory, offsets, task, op).reshape(view.data.shape))
        descriptor.touch(copy, op, task.memory, offsets, write=False)
