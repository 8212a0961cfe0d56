"""Tensor memory and the products that add up there: loads, stores, `tcgen05_mma` and commits.

Input: a task at an op of `ir/ops/tmem.py`. Output: tiles, elements written, operations in flight. For example:

    tcgen05_mma %a %b %acc; tcgen05_commit %done      the product lands, maybe much later; then one arrival on the barrier

The tcgen05 operations of a task are a queue: they run one after the other in the order of issue, and a commit is over when all
before it are. A product reads its operands, and reads and writes its accumulator, when it lands: an operand that is overwritten
too early, or an accumulator that is read too early, shows.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...compiler.triton_port.interpreter import matmul
from ..costs import abstract as costs
from ..machine.operands import enabled
from ..machine.table import handles
from ..machine.tasks import Cta, InFlight, Wait
from ..memory.mbarriers import single
from ..memory.peers import check_there
from ..memory.values import numpy_type
from ..memory_model import ASYNC

GROUP = "tcgen05"


@handles("tmem_load", switches=True)
def tmem_load(task, op):
    view = task.env[op.buffer]
    view.touch(task, op, write=False)
    found = view.read(task, op)
    columns = view.allocation.columns
    task.env[op.result] = found if columns is None else columns.known(task, op, view, found)


@handles("tmem_store", switches=True)
def tmem_store(task, op):
    view, tile = task.env[op.buffer], task.take(op.value, op)
    view.touch(task, op, write=True)
    writes(task, op, view)
    view.write(tile)


@handles("tcgen05_mma")
def tcgen05_mma(task, op):
    if not enabled(task, op, op.predicate):
        return
    yield None
    a, b, dtype = task.env[op.a], task.env[op.b], numpy_type(op.acc.type.element, op.site)
    yield from multiply(task, op, "async_dot", (a, b), lambda acc: matmul(left_of(a.data, b.data), b.data, acc, dtype, "tf32"))


def left_of(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Operand A as bytes, if B is of bytes: those in tensor memory lie as 8-bit floats (`passes/tile_bytes.py`)."""
    return a.view(b.dtype) if b.dtype.kind in "iu" else a


def multiply(task, op, name: str, operands: tuple, product: Callable[[np.ndarray | None], np.ndarray]):
    """A product into tensor memory, in the queue of its task: `product` gives it, added to what it is given, when it lands."""
    acc = task.env[op.acc]
    adds = op.use_acc if isinstance(op.use_acc, bool) else bool(task.read(op.use_acc, op))
    duration, unit = costs.dot(op), task.cta.unit("tensor core")
    start = unit.reserve(task.clock, duration)
    (m, k), n = op.a.type.shape, op.b.type.shape[1]
    task.machine.record(task.cta, "tensor core", "dot", start, start + duration, f"{m} x {n} x {max(k, op.b.type.shape[0])}", op)
    for operand in (*operands, acc) if adds else operands:
        check_queued(task, op, operand)
    dot = queued(task, op, name, start + duration + costs.DOT_LATENCY, operands, acc,
                 lambda: product(acc.tile if adds else None), by_its_barriers, adds=adds)
    if op.attrs.get("waits"):
        task.machine.order.commit(task, GROUP)
        while not dot.landed:
            yield Wait(op, "group", task, lambda: f"its own {name}", lambda: list(task.tensor_work))
        task.machine.order.wait_group(task, GROUP, 0)
        task.wait_until(dot.end, op, name)


def by_its_barriers() -> str:
    """By what a product lands, in a report."""
    return "the barrier of its mBarriers, or of a tcgen05_commit behind it"


def queued(task, op, name: str, end: float, sources: tuple, target, result: Callable[[], np.ndarray],
           lands_by: Callable[[], str], cta: Cta | None = None, adds: bool = False) -> InFlight:
    """Start an operation that reads `sources`, and writes `target`, or `adds` to it, with the `result` that it has when it lands;
    in another CTA `cta` of the pair if one is given."""

    def land(work: InFlight) -> None:
        if cta is not None:
            check_there(cta, task, op, f"the {name} of the pair that it started lands in")
        target.arrive(work, result())
        if any(np.shares_memory(other.destination.marks, target.marks) for other in target.allocation.coming):
            target.coming()     # more work for it is under way

    work = InFlight(name, task, op, end, land, destination=target, follows=last(task), group=GROUP, lands_in=cta, lands_by=lands_by)
    task.tensor_work.append(work)
    task.machine.start(work)
    for source in sources:
        source.touch(work, op, write=False, proxy=ASYNC)
        reads(task, op, source)
    target.touch(work, op, write=True, proxy=ASYNC)
    writes(task, op, target, adds)
    target.expect(work)
    return work


def reads(task, op, view) -> None:
    """Refuse to read columns that another array has overwritten."""
    if view.allocation.columns is not None and task.machine.check_unwritten:
        view.allocation.columns.check(task, op, view)


def writes(task, op, view, adds: bool = False) -> None:
    """Note whose the columns are from here on; what `adds` to them reads them first."""
    if view.allocation.columns is not None:
        if adds:
            reads(task, op, view)
        view.allocation.columns.write(op, view)


def check_queued(task, op, view, cta: Cta | None = None) -> None:
    """Each element must be written, or be on its way from earlier work of the same queue; in another CTA `cta` if one is given."""
    coming = [work for work in view.allocation.coming if work.task is task and work.group == GROUP]
    if not any(np.shares_memory(work.destination.marks, view.marks) for work in coming):
        view.check(task, op, of="" if cta is None else f" of {cta}")


@handles("tcgen05_commit", switches=True)
def tcgen05_commit(task, op):
    if not enabled(task, op, op.predicate):
        return
    barrier = single(task, op, op.barrier)
    before = last(task)

    def land(commit: InFlight) -> None:
        barrier.arrive_of(commit)

    commit = InFlight("tcgen05_commit", task, op, max(task.clock, before.end if before else 0.0), land, follows=before, group=GROUP)
    task.machine.order.commit(task, GROUP)
    task.tensor_work.append(commit)
    task.machine.start(commit)
    barrier.expect(commit)


def last(task) -> InFlight | None:
    """The newest tcgen05 operation of a task that is still under way."""
    while task.tensor_work and task.tensor_work[0].landed:
        task.tensor_work.popleft()
    return task.tensor_work[-1] if task.tensor_work else None
