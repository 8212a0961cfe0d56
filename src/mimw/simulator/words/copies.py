"""Asynchronous copies: TMA loads and stores, and cp.async.

Input: a task at an op of `ir/ops/copies.py`. Output: an operation in flight, which moves the data when it lands. For example:

    tma_load %descriptor (%row, %column) %full[0] %tile      the block lands in the tile, maybe much later, and completes its bytes

Nothing is read or written when a copy is issued. So a source that is overwritten too early, or a destination that is read too
early, shows.
"""

from __future__ import annotations

from math import prod

import numpy as np

from ...errors import IllegalCopy, SimulatorMisuse, fail
from ...ir import Op
from ...ir.tensor_map import corner_problem
from ..costs.abstract import COPY_LATENCY, TMA_LATENCY, transfer
from ..machine.operands import enabled, offsets_of
from ..machine.table import handles
from ..machine.tasks import InFlight, Task, Wait, all_but
from ..memory.global_tensors import by_mover, by_tma
from ..memory.mbarriers import single
from ..memory_model import ASYNC


def issue(task: Task, op: Op, kind: str, unit: str, size: int, latency: float, land, label: str, **fields) -> InFlight:
    """Start a copy of `size` bytes: it takes its turn on the unit, and ends a latency later."""
    duration = transfer(size)
    start = task.cta.unit(unit).reserve(task.clock, duration)
    machine = task.machine
    if machine.trace is not None:
        machine.record(task.cta, unit, "copy", start, start + duration, label, op, size)
    return machine.start(InFlight(kind, task, op, start + duration + latency, land, **fields))


def check_corner(task: Task, op: Op, descriptor, offsets: list[int]) -> None:
    """Refuse a block that begins where TMA cannot, of whatever op that copies one, and a padding that AMD's data mover cannot."""
    if by_mover(op) and descriptor.nan and op.row.copy != "out":
        raise fail(IllegalCopy, task, op, f"{op.row.word}: its descriptor pads with NaN, and the chip's data mover pads with zeros",
                   hint="describe the tensor with padding=\"zero\"")
    if not by_tma(op):
        return
    problem = corner_problem(offsets, descriptor.shape, descriptor.dtype.itemsize, writes=op.row.copy == "out")
    if problem is not None:
        raise fail(IllegalCopy, task, op, f"{op.row.word or op.name}: {problem[0]}", hint=problem[1])


def check_block(task: Task, op: Op, descriptor, offsets: list[int], view) -> None:
    """Refuse a block that is not the view's, and one that begins where TMA cannot."""
    check_corner(task, op, descriptor, offsets)
    block, shape = tuple(descriptor.block), tuple(view.data.shape)
    if block[len(block) - len(shape):] != shape or prod(block) != prod(shape):
        raise fail(SimulatorMisuse, task, op, f"the descriptor's block is {tuple(descriptor.block)} and {view.name} is "
                   f"{view.data.shape}")


@handles("tma_load", switches=True)
def tma_load(task, op):
    if not enabled(task, op, op.predicate):
        return
    descriptor, offsets, view = task.env[op.descriptor], offsets_of(task, op, op.offsets), task.env[op.buffer]
    barrier = single(task, op, op.barrier)
    check_block(task, op, descriptor, offsets, view)
    size = view.data.nbytes

    def land(copy: InFlight) -> None:
        view.arrive(copy, descriptor.read(task.memory, offsets, task, op).reshape(view.data.shape))
        barrier.complete(copy, size)

    copy = issue(task, op, "TMA load", "TMA", size, TMA_LATENCY, land, view.name, destination=view,
                  lands_by=barrier.landing())
    descriptor.touch(copy, op, task.memory, offsets, write=False)
    view.touch(copy, op, write=True, proxy=ASYNC)
    barrier.expect(copy)
    view.expect(copy)


@handles("tma_fetch", switches=True)
def tma_fetch(task, op):
    descriptor, offsets, view = task.env[op.descriptor], offsets_of(task, op, op.offsets), task.env[op.buffer]
    check_block(task, op, descriptor, offsets, view)
    descriptor.touch(task, op, task.memory, offsets, write=False)
    view.touch(task, op, write=True, proxy=ASYNC)
    view.write(descriptor.read(task.memory, offsets, task, op).reshape(view.data.shape))


@handles("tma_store", switches=True)
def tma_store(task, op):
    descriptor, offsets, view = task.env[op.descriptor], offsets_of(task, op, op.offsets), task.env[op.buffer]
    reduce = op.reduce or ""
    check_block(task, op, descriptor, offsets, view)

    def land(copy: InFlight) -> None:
        descriptor.write(task.memory, offsets, view.data.reshape(descriptor.block), reduce, task, op)

    store = issue(task, op, "TMA store", "TMA", view.data.nbytes, TMA_LATENCY, land, view.name, group="bulk")
    view.touch(store, op, write=False, proxy=ASYNC)
    view.check(task, op)
    descriptor.touch(store, op, task.memory, offsets, write=True, scope="gpu" if reduce else "")
    task.machine.order.commit(task, "bulk")
    task.stores.append(store)


@handles("tma_store_wait")
def tma_store_wait(task, op):
    yield None
    pending = int(op.pending)
    yield from wait_for_groups(task, op, [[store] for store in task.stores], pending, "TMA store")
    task.stores = task.stores[-pending:] if pending else []
    task.machine.order.wait_group(task, "bulk", pending)


@handles("async_load", switches=True)
def async_load(task, op):
    pointer, view = task.read(op.pointer, op), task.env[op.buffer]
    mask, other = (None if arg is None else task.read(arg, op) for arg in (op.mask, op.other))
    memory, dtype = task.memory, view.data.dtype
    if np.shape(pointer) != view.data.shape:
        raise fail(SimulatorMisuse, task, op,
                   f"{np.shape(pointer)} pointers for {view.name} of shape {view.data.shape}")
    memory.read(pointer, mask, dtype, other, task, op)     # a wrong address is the issuing line's error

    def land(copy: InFlight) -> None:
        view.arrive(copy, memory.read(pointer, mask, dtype, other, task, op))

    copy = issue(task, op, "async_load", "cp.async", view.data.nbytes, COPY_LATENCY, land, view.name, destination=view,
                  group="cp.async", lands_by=lambda: f"the cp.async group it is in: {task.where} commits and waits for that")
    memory.touch(copy, op, pointer, mask, dtype.itemsize, write=False)
    view.touch(copy, op, write=True)
    view.expect(copy)
    task.copies.append(copy)
    task.env[op.result] = None


@handles("async_commit")
def async_commit(task, op):
    task.groups.append(task.copies)
    task.machine.order.commit(task, "cp.async")
    task.copies = []
    task.env[op.result] = None


@handles("async_wait")
def async_wait(task, op):
    yield None
    pending = int(op.pending)
    yield from wait_for_groups(task, op, task.groups, pending, "cp.async")
    knows_landed(task, task.groups, pending, "cp.async")
    task.groups = task.groups[-pending:] if pending else []
    task.machine.order.wait_group(task, "cp.async", pending)
    task.env[op.result] = None


def knows_landed(task: Task, groups: list[list[InFlight]], pending: int, kind: str) -> None:
    """`task` has waited for these of its copies, some of which have landed on a barrier instead of in their sequence of groups."""
    for copy in (copy for group in groups[:max(0, len(groups) - pending)] for copy in group if copy.group != kind):
        task.machine.order.told(task, copy)


def wait_for_groups(task: Task, op: Op, groups: list[list[InFlight]], pending: int, kind: str):
    """Block until all but the `pending` newest groups have landed."""
    wanted = [copy for group in groups[:len(groups) - pending] for copy in group] if len(groups) > pending else []
    while left := [copy for copy in wanted if not copy.landed]:
        yield Wait(op, "group", task, lambda: f"{len(left)} {kind} operations of its own", lambda: left)
    task.wait_until(max((copy.end for copy in wanted), default=0.0), op, all_but(f"{kind} groups", pending))
