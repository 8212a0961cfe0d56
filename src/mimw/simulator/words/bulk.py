"""Bulk copies of consecutive bytes; as all copies, they move the bytes when they land.

Input: a task at a `bulk_load` or `bulk_store`. Output: an operation in flight. For example:

    bulk_load %pointer %full[0] %tile 4096      4096 bytes land in the tile, and are completed on the barrier
"""

from __future__ import annotations

import numpy as np

from ...errors import IllegalCopy, SimulatorMisuse, fail
from ...ir.tensor_map import bulk_problem
from ..costs.abstract import TMA_LATENCY
from ..machine.operands import position
from ..machine.table import handles
from ..memory.mbarriers import single
from ..memory_model import ASYNC
from .copies import issue


def check_bulk(task, op, size: int, address: int, what: str = "a bulk copy") -> None:
    """Refuse a copy that the engine does not make."""
    if problem := bulk_problem(size, address, what=what):
        raise fail(IllegalCopy, task, op, f"{op.row.word}: {problem[0]}", hint=problem[1])


def _checked(task, op, pointer, view, size: int):
    """(address, the part of the buffer) of a copy of `size` bytes."""
    address = int(np.asarray(pointer).reshape(-1)[0])
    room = view.data.nbytes
    check_bulk(task, op, size, address, f"a bulk copy with {view.name}")
    if size > room:
        raise fail(SimulatorMisuse, task, op, f"{op.row.word}: a bulk copy of {size} bytes with {view.name} of {room} bytes",
                   hint="copy what fits into the buffer")
    count = size // view.data.itemsize
    return address, view.part(slice(0, count), f"[0:{count}]") if size < room else view


@handles("bulk_load", switches=True)
def bulk_load(task, op):
    pointer, barrier = task.read(op.pointer, op), single(task, op, op.barrier)
    size = position(task, op, op.bytes)
    address, view = _checked(task, op, pointer, task.env[op.buffer], size)
    memory, dtype = task.memory, view.data.dtype
    memory.box(address, view.data.shape, (1, ), dtype, task, op, "reads")     # a wrong address is the issuing line's error

    def land(copy) -> None:
        view.arrive(copy, memory.box(address, view.data.shape, (1, ), dtype, task, op, "reads").copy())
        barrier.complete(copy, size)

    copy = issue(task, op, "bulk copy", "TMA", size, TMA_LATENCY, land, view.name, destination=view,
                 lands_by=barrier.landing())
    memory.touch_box(copy, op, address, view.data, write=False)
    view.touch(copy, op, write=True, proxy=ASYNC)
    barrier.expect(copy)
    view.expect(copy)
    task.env[op.result] = None


@handles("bulk_store", switches=True)
def bulk_store(task, op):
    address, view = _checked(task, op, task.read(op.pointer, op), task.env[op.buffer], position(task, op, op.bytes))
    memory, dtype = task.memory, view.data.dtype
    memory.box(address, view.data.shape, (1, ), dtype, task, op, "writes")

    def land(copy) -> None:
        memory.box(address, view.data.shape, (1, ), dtype, task, op, "writes")[...] = view.data
        task.machine.wrote()

    store = issue(task, op, "bulk store", "TMA", view.data.nbytes, TMA_LATENCY, land, view.name, group="bulk")
    view.touch(store, op, write=False, proxy=ASYNC)
    view.check(task, op)
    memory.touch_box(store, op, address, view.data, write=True)
    task.machine.order.commit(task, "bulk")
    task.stores.append(store)
