"""Other CTAs' barriers and shared memory: arrivals, stores, copies and multicast loads.

A handle names the same place in every CTA. Ordinary stores to another CTA may land late, at the latest when the task that
issued them releases; asynchronous ones land when the seed says, and complete their bytes on the receiver's barrier. A CTA
that has left cannot be touched.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..errors import BarrierNotReady, OutOfBounds, PeerExited
from .barrier import Mbarrier, enabled, single
from .copies import check_shape, issue
from .costs import COPY_LATENCY, TMA_LATENCY
from .descriptor import offsets_of
from .order import ASYNC, GENERIC
from .shared import View, position
from .table import handles
from .tasks import Cta, InFlight, Task, fail


def peer(task: Task, op, rank) -> Cta:
    """The CTA of that rank in the task's cluster, if it is still there."""
    number, ctas = position(task, op, rank), task.cta.cluster.ctas
    if not 0 <= number < len(ctas):
        raise fail(OutOfBounds, task, op, f"{op.name} names the CTA with rank {number} of a cluster of {len(ctas)}")
    _check_there(ctas[number], task, op, f"{op.name} touches")
    return ctas[number]


def _check_there(cta: Cta, task: Task, op, what: str) -> None:
    if not cta.live:
        raise fail(PeerExited, task, op, f"{what} CTA {cta.index}, which has left the kernel",
                   hint="keep it there: it waits for what it receives, or all meet at a cluster_barrier")


def barrier_of(cta: Cta, barrier: Mbarrier, task: Task, op) -> Mbarrier:
    """The same barrier in `cta`."""
    if barrier.root not in cta.barriers:
        raise fail(BarrierNotReady, task, op, f"{op.name} touches {barrier.name} of CTA {cta.index} before it is made there",
                   barrier.made, hint="allocate it outside of loops and tasks, or have the cluster meet after the allocation")
    there = cta.barriers[barrier.root][barrier.index]
    task.machine.order.used(task, op, there, remote=cta is not task.cta)
    return there


def view_of(cta: Cta, view: View, task: Task, op) -> View:
    """The same part of the same buffer in `cta`."""
    root = next(value for value, whole in task.cta.memory.items() if whole.allocation is view.allocation)
    if root not in cta.memory:
        raise fail(OutOfBounds, task, op, f"{op.name} touches {view.name} of CTA {cta.index} before it is allocated there",
                   hint="allocate it outside of loops and tasks, or have the cluster meet after the allocation")
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


def _start(task: Task, op, kind: str, unit: str, latency: float, cta: Cta, view: View, barrier: Mbarrier, tile,
           proxy: str = ASYNC) -> InFlight:
    """Put a copy to `view` of `cta` in flight that completes its bytes on `barrier` there; `tile()` gives its data."""
    size = view.data.nbytes

    def land(copy: InFlight) -> None:
        _check_there(cta, task, op, f"the {kind} that it started lands in")
        view.arrive(copy, tile())
        barrier.complete(copy, size)

    copy = issue(task, op, kind, unit, size, latency, land, view.name, destination=view, home=cta,
                 lands_by=f"barrier {barrier.name} of CTA {cta.index}, phase {barrier.phase} (parity {barrier.phase & 1})")
    view.touch(copy, op, write=True, proxy=proxy)
    barrier.expect(copy)
    view.expect(copy)
    return copy


@handles("remote_view")
def remote_view(task, op):
    task.env[op.result] = single(task, op, op.args[0])


@handles("remote_arrive", switches=True)
def remote_arrive(task, op):
    barrier, count, rank, when = op.args
    if not enabled(task, op, when):
        return
    task.release()
    cta = peer(task, op, rank)
    threads = 32 * task.num_warps if barrier.type.per_thread else 1
    barrier_of(cta, single(task, op, barrier), task, op).arrive(threads * position(task, op, count), task, op)
    task.machine.polls = 0


@handles("remote_store", switches=True)
def remote_store(task, op):
    buffer, value, rank = op.args
    cta, tile = peer(task, op, rank), task.read(value, op)
    view = view_of(cta, task.env[buffer], task, op)

    def land(store: InFlight) -> None:
        _check_there(cta, task, op, "the remote_shmem_store that it issued lands in")
        view.arrive(store, tile.reshape(view.data.shape))

    view.touch(task, op, write=True)
    store = issue(task, op, "remote_shmem_store", "cluster", view.data.nbytes, COPY_LATENCY, land, view.name, destination=view,
                  group="remote", lands_by=f"a cluster_barrier, or an arrival of {task.where} on this CTA's barrier")
    view.expect(store)
    task.remote.append(store)


@handles("async_remote_store", switches=True)
def async_remote_store(task, op):
    buffer, value, rank, barrier = op.args
    cta, tile = peer(task, op, rank), task.read(value, op)
    view = view_of(cta, task.env[buffer], task, op)
    _start(task, op, "async_remote_shmem_store", "cluster", COPY_LATENCY, cta, view,
           barrier_of(cta, single(task, op, barrier), task, op), lambda: tile.reshape(view.data.shape), GENERIC)


@handles("async_remote_copy", switches=True)
def async_remote_copy(task, op):
    """The source's bytes are read when the copy lands."""
    buffer, source, rank, barrier = op.args
    cta, source = peer(task, op, rank), task.env[source]
    view = view_of(cta, task.env[buffer], task, op)
    copy = _start(task, op, "async_remote_shmem_copy", "cluster", TMA_LATENCY, cta, view,
           barrier_of(cta, single(task, op, barrier), task, op),
           lambda: np.ascontiguousarray(source.data).view(np.uint8).reshape(-1).view(view.data.dtype).reshape(view.data.shape))
    source.touch(copy, op, write=False, proxy=ASYNC)
    source.check(task, op)


@handles("tma_load_multicast", switches=True)
def tma_load_multicast(task, op):
    """One copy lands in each target, in any order."""
    descriptor, offsets, barrier, buffer, targets, when, _ = op.args
    if not enabled(task, op, when):
        return
    descriptor, offsets = task.env[descriptor], offsets_of(task, op, offsets)
    barrier, view = single(task, op, barrier), task.env[buffer]
    check_shape(task, op, descriptor, view)
    for rank in sorted({position(task, op, target) for target in targets}):
        cta = peer(task, op, rank)
        copy = _start(task, op, "multicast TMA load", "TMA", TMA_LATENCY, cta, view_of(cta, view, task, op),
               barrier_of(cta, barrier, task, op), lambda: descriptor.read(task.machine.memory, offsets, task, op))
        descriptor.touch(copy, op, task.machine.memory, offsets, write=False)
