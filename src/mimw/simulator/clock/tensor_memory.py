"""Tensor memory on the machine with a clock: products that add up there, their commits, and copies to and from registers.

Input: a timed task at an op of `ir/ops/tmem.py`. Output: busy tensor cores or a busy tensor memory, and an operation in flight or
a later clock of the task. For example:

    tcgen05_mma         the task goes on when it has issued the instructions; the tensor cores take m * n * k / rate, in their turn
    tcgen05_commit      arrives `tcgen05.latency` after the tensor cores are done with all products before it
    tmem_load           takes "tensor memory"; the task goes on `tensor_memory.latency` later

No product is computed: nobody's course depends on one (`analysis.needed` says so where somebody's does).
"""

from __future__ import annotations

from ...ir import Tensor
from ..machine.operands import enabled
from ..machine.table import HANDLERS
from ..machine.tasks import InFlight, Task, Wait
from ..memory.mbarriers import single
from .table import skip, timed

UNIT = "tensor memory"


@timed("tcgen05_mma")
def tcgen05_mma(task, op):
    if not enabled(task, op, op.predicate):
        return
    yield None
    machine, model = task.machine, task.machine.model
    a, b = op.a.type, op.b.type
    (m, n), k = op.acc.type.shape[-2:], a.shape[-1]
    machine.advance(task, task.clock + model["tcgen05.issue"] * model.instructions(m, n, k, a.element.bits))
    operands = model.shared_operands(m, n, k, a.element.bits, b.element.bits, a.space != "tmem")
    duration = model.dot(m, n, k, a.element.bits, operands)
    end = machine.unit(task, "tensor").take(task.clock, duration)
    machine.record(task.cta, "tensor core", "dot", end - duration, end, f"{m} x {n} x {k}", op)
    dot = _queued(task, InFlight("async_dot", task, op, end + model["tcgen05.latency"], lambda dot: None))
    if op.attrs.get("waits"):
        while not dot.landed:
            yield Wait(op, "group", task, lambda: "its own async_dot", lambda: list(task.tensor_work))
        task.wait_until(dot.end, op, "async_dot")
        task.floor = task.clock


@timed("tcgen05_commit")
def tcgen05_commit(task, op):
    if not enabled(task, op, op.predicate):
        return
    barrier, before = single(task, op, op.barrier), task.tensor_work[-1] if task.tensor_work else None
    end = max(task.clock, before.end) if before is not None else task.clock
    barrier.expect(_queued(task, InFlight("tcgen05_commit", task, op, end, barrier.arrive_of)))
    task.machine.advance(task, task.clock)


@timed("tmem_load", "tmem_store")
def registers(task, op):
    """The task stands still until the tile is there: each load and store waits for itself."""
    machine, model = task.machine, task.machine.model
    tile = (op.result if op.results else op.value).type
    assert isinstance(tile, Tensor)
    direction = "load" if op.results else "store"
    size = tile.numel * tile.element.bytes
    taken = model.tensor_memory(size, task.num_warps, direction)
    end = machine.unit(task, UNIT).take(task.clock, taken)
    machine.record(task.cta, UNIT, "copy" if op.results else "store", end - taken, end, direction, op, size)
    task.wait_until(end + model["tensor_memory.latency"], op, f"a {direction} of {UNIT}")
    task.floor = task.clock
    if op.results and machine.needed.values.issuperset(op.results) or op in machine.needed.stores:
        HANDLERS[op.name].run(task, op)
    else:
        skip(task, op)


def _queued(task: Task, operation: InFlight) -> InFlight:
    """The task's newest tcgen05 operation; those that have landed leave the queue."""
    while task.tensor_work and task.tensor_work[0].landed:
        task.tensor_work.popleft()
    task.tensor_work.append(operation)
    return task.machine.start(operation)
