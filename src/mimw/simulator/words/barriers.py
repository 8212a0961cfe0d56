"""mbarriers and fences: what their ops do.

Input: a task at an op of `ir/ops/barriers.py`. Output: an mbarrier with more arrivals or bytes, or a task that waits for a phase.

    barrier_wait %full[0] %phase      the task goes on when the phase of that parity has completed
"""

from __future__ import annotations

import numpy as np

from ...compiler.analysis import pipe_side
from ...compiler.analysis.launch_control import clc_side
from ...errors import BarrierMisuse, OutOfBounds, fail
from ...target import NVIDIA_WARP
from ..machine.operands import enabled, position
from ..machine.table import handles
from ..machine.tasks import PipeCall, Wait
from ..memory.mbarriers import Mbarrier, single
from ..memory.outside import Outside


@handles("alloc_barriers")
def alloc_barriers(task, op):
    pipe = pipe_side(op)
    barriers = tuple(Mbarrier(op.result, index, op.arrive_count, op.site, pipe=pipe, clc=clc_side(op)) for index in range(op.count))
    before = task.cta.barriers.get(op.result) or (None, ) * op.count
    task.env[op.result] = task.cta.barriers[op.result] = barriers
    for barrier, old in zip(barriers, before):
        task.machine.order.made(task, barrier, old)


@handles("barrier_index")
def barrier_index(task, op):
    barriers, index = task.env[op.barrier], position(task, op, op.index)
    barriers = (barriers, ) if isinstance(barriers, Mbarrier) else barriers
    if 0 <= index < len(barriers):
        task.env[op.result] = barriers[index]
        return

    def outside() -> Exception:
        return fail(OutOfBounds, task, op, f"index {index} of the barriers of {barriers[0].name}, of which there are "
                    f"{len(barriers)}")

    if "lazy" not in op.attrs:
        raise outside()
    task.env[op.result] = Outside(outside)


@handles("barrier_slice")
def barrier_slice(task, op):
    task.env[op.result] = task.env[op.barrier][op.start:op.start + op.count]


def _called(task, op, barrier, chunk: int) -> None:
    """The task calls a method of a pipe, which works on `barrier`: reports tell of the call."""
    tick = task.strand.epoch.tick if task.strand is not None else 0
    call = PipeCall(op, barrier, chunk, tick)
    task.calls.append(call)
    if task.machine.trace is not None and op.row.barrier != "wait":
        task.machine.record(task.cta, task.name, "pipe", task.clock, task.clock, str(call), op)


@handles("barrier_expect", switches=True)
def barrier_expect(task, op):
    if enabled(task, op, op.predicate):
        barrier = single(task, op, op.barrier)
        if barrier.pipe is not None:
            _called(task, op, barrier, position(task, op, op.chunk))
        barrier.arrive(1, task, op, size=position(task, op, op.bytes))
        task.machine.polls = 0


@handles("barrier_bytes", switches=True)
def barrier_bytes(task, op):
    single(task, op, op.barrier).pending_bytes += op.bytes


@handles("barrier_arrive", "raw_arrives", switches=True)
def barrier_arrive(task, op):
    if enabled(task, op, op.predicate):
        threads = NVIDIA_WARP * task.num_warps if op.barrier.type.per_thread else 1
        barrier = single(task, op, op.barrier)
        if barrier.pipe is not None:
            _called(task, op, barrier, position(task, op, op.chunk))
        barrier.arrive(threads * position(task, op, op.count), task, op)
        task.machine.polls = 0


@handles("barrier_wait")
def barrier_wait(task, op):
    if not enabled(task, op, op.predicate):
        return
    yield None
    barrier, parity = single(task, op, op.barrier), _parity(task, op)
    chunk = position(task, op, op.chunk) if op.chunk is not None else None
    while not barrier.completed(parity):
        barrier.waiters.append(task)
        yield Wait(op, "barrier", barrier, lambda: barrier.awaited(parity, op, chunk), lambda: barrier.coming)
        barrier.check(task, op)
    machine = task.machine
    if barrier.phase:
        machine.awaited[barrier.root] = None
    if barrier.pipe is not None:
        _called(task, op, barrier, chunk)
    machine.order.looked(task, op, barrier, parity)
    task.wait_until(barrier.completed_at[parity], op, barrier.wanted(parity, op, chunk) if machine.trace is not None else "")


def _parity(task, op) -> int:
    parity = position(task, op, op.phase)
    if parity not in (0, 1):
        raise fail(BarrierMisuse, task, op, f"waits for phase {parity} of {single(task, op, op.barrier).name}; phases go by "
                   "parity, 0 or 1", hint="take the phase & 1")
    return parity


@handles("barrier_phase", switches=True)
def barrier_phase(task, op):
    task.env[op.result] = np.int32(single(task, op, op.barrier).phase & 1)


@handles("barrier_test")
def barrier_test(task, op):
    """Between two looks others go on, so that a loop of looks ends."""
    yield None
    barrier, parity = single(task, op, op.barrier), _parity(task, op)
    done = barrier.completed(parity)
    task.env[op.result] = np.bool_(done)
    if done:
        if barrier.phase:
            task.machine.awaited[barrier.root] = None
        task.machine.order.looked(task, op, barrier, parity)
        task.wait_until(barrier.completed_at[parity], op, barrier.wanted(parity, op, None))
    else:
        task.machine.polls += 1


@handles("fence")
def fence(task, op):
    """Changes no value here; what it orders, the order knows."""
    task.machine.order.fence(task, op.scope)


@handles("barrier", "grid_dependency_wait", "grid_dependency_launch_dependents")
def ordered_already(task, op):
    """A task runs its ops one after the other, and every launch has ended before the next begins."""


