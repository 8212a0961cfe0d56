"""Copies by AMD's tensor data mover: each lands at some time, a wait counts them in the order of their start.

Input: a task at an op of `ir/ops/mover.py`. Output: a descriptor at another place, or an operation in flight. For example:

    %there = tdm_place %descriptor (%row, %column) clamp      what lies behind that place is the tensor now
    tdm_load %there %tile                                     the block lands in the tile, maybe much later

The hardware counts them apart from all other copies (`s_wait_tensorcnt`), and between the two queues nothing is in order.
"""

from __future__ import annotations

from ...errors import IllegalCopy, fail
from ..costs.abstract import TMA_LATENCY
from ..machine.operands import enabled, offsets_of
from ..machine.table import handles
from ..machine.tasks import InFlight, Task
from ..memory.mbarriers import single
from .copies import check_corner, issue, knows_landed, wait_for_groups

_QUEUE, _ENGINE = "tdm", "TDM"


@handles("tdm_place")
def tdm_place(task, op):
    on = None if op.predicate is None else enabled(task, op, op.predicate)
    task.env[op.result] = task.env[op.descriptor].placed(offsets_of(task, op, op.add), offsets_of(task, op, op.bounds), on,
                                                         op.attrs.get("clamp", False))


@handles("tdm_load", switches=True)
def tdm_load(task, op):
    descriptor, view, memory = task.env[op.descriptor], task.env[op.buffer], task.memory
    start = [0] * len(descriptor.block)
    check_corner(task, op, descriptor, start)

    def land(copy: InFlight) -> None:
        view.arrive(copy, descriptor.read(memory, start, task, op))

    if descriptor.on:
        descriptor.part(memory, start, descriptor.block, task, op, "reads")     # a wrong address is the issuing line's error
        copy = issue(task, op, "TDM load", _ENGINE, view.data.nbytes, TMA_LATENCY, land, view.name, destination=view, group=_QUEUE,
                     lands_by=lambda: f"its place in the order of copies: {task.where} waits for that")
        descriptor.touch(copy, op, memory, start, write=False)
        view.touch(copy, op, write=True)
        view.expect(copy)
        task.moving.append(copy)
    if not op.attrs.get("more"):
        _close(task)
    task.env[op.result] = None


@handles("tdm_load_arrive", switches=True)
def tdm_load_arrive(task, op):
    """A load that tells the barrier's waiters of its block; the task counts it besides, as any other."""
    descriptor, view, barrier, memory = task.env[op.descriptor], task.env[op.buffer], single(task, op, op.barrier), task.memory
    start = [0] * len(descriptor.block)
    check_corner(task, op, descriptor, start)
    if not descriptor.on:
        raise fail(IllegalCopy, task, op, "its descriptor is off (pred), and whether the barrier hears of a copy that copies "
                   "nothing, no manual says", hint="branch around the copy, and let the task arrive instead")
    descriptor.part(memory, start, descriptor.block, task, op, "reads")

    def land(copy: InFlight) -> None:
        view.arrive(copy, descriptor.read(memory, start, task, op))
        barrier.landed(copy, op.count)

    copy = issue(task, op, "TDM load", _ENGINE, view.data.nbytes, TMA_LATENCY, land, view.name, destination=view,
                 lands_by=barrier.landing())
    descriptor.touch(copy, op, memory, start, write=False)
    view.touch(copy, op, write=True)
    barrier.expect(copy)
    view.expect(copy)
    task.moving.append(copy)
    _close(task)


@handles("tdm_store", switches=True)
def tdm_store(task, op):
    descriptor, view, memory = task.env[op.descriptor], task.env[op.buffer], task.memory
    start = [0] * len(descriptor.block)

    def land(copy: InFlight) -> None:
        descriptor.write(memory, start, view.data, "", task, op)

    if descriptor.on:
        descriptor.part(memory, start, descriptor.block, task, op, "writes")
        store = issue(task, op, "TDM store", _ENGINE, view.data.nbytes, TMA_LATENCY, land, view.name, group=_QUEUE)
        view.touch(store, op, write=False)
        view.check(task, op)
        descriptor.touch(store, op, memory, start, write=True)
        task.moving.append(store)
    _close(task)


def _close(task: Task) -> None:
    """Close a copy: all parts that were started since the last one, also if those are none."""
    task.moves.append(task.moving)
    task.machine.order.commit(task, _QUEUE)
    task.moving = []


@handles("tdm_wait")
def tdm_wait(task, op):
    yield None
    pending = int(op.pending)
    yield from wait_for_groups(task, op, task.moves, pending, _ENGINE)
    knows_landed(task, task.moves, pending, _QUEUE)
    task.moves = task.moves[-pending:] if pending else []
    task.machine.order.wait_group(task, _QUEUE, pending)
    task.env[op.result] = None


@handles("tdm_prefetch")
def tdm_prefetch(task, op):
    """There are no caches here."""
