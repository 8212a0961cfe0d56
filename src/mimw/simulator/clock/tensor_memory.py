"""Tensor memory on the machine with a clock: products that add up there, their commits, and copies to and from registers.

Input: a timed task at an op of `ir/ops/tmem.py`. Output: busy tensor cores or a busy tensor memory, and an operation in flight or
a later clock of the task. For example:

    tcgen05_mma         the task goes on when it has issued the instructions; the tensor cores take m * n * k / rate, in their turn
    tcgen05_commit      arrives `tcgen05.latency` after the tensor cores are done with all products before it
    tmem_load           takes "tensor memory"; the task goes on `tensor_memory.latency` later

No product is computed: nobody's course depends on one (`analysis.needed` says so where somebody's does).
"""

from __future__ import annotations

from ...ir import Op, Tensor
from ..machine.operands import enabled, position
from ..machine.table import HANDLERS
from ..machine.tasks import InFlight, Task, Wait
from ..memory.mbarriers import Mbarrier, single
from ..memory.peers import barrier_of, peer
from .table import skip, timed

UNIT = "tensor memory"
_FOUR, _EIGHT = 4, 8        # bits of an element


@timed("tcgen05_mma")
def tcgen05_mma(task, op):
    a, b = op.a.type, op.b.type
    yield from _multiply(task, op, a.shape[-1], (a.element.bits, b.element.bits), a.element.bits)


@timed("tcgen05_mma_scaled")
def tcgen05_mma_scaled(task, op):
    k, bits = _scaled(op)
    yield from _multiply(task, op, k, (bits, bits), bits)


def _scaled(op: Op) -> tuple[int, int]:
    """(K, bits of an element) of a product with block scales: products of two e2m1 have a rate of their own; one beside a wider
    type is padded to it, and has its rate."""
    packed = [form == "e2m1" for form in (op.a_format, op.b_format)]
    return op.a.type.shape[-1] * (_EIGHT // _FOUR if packed[0] else 1), _FOUR if all(packed) else _EIGHT


def _multiply(task: Task, op: Op, k: int, element_bits: tuple[int, int], rate_bits: int):
    """A product into tensor memory. `element_bits` are those of an element of A and of B in shared memory."""
    if not enabled(task, op, op.predicate):
        return
    yield None
    machine, model = task.machine, task.machine.model
    m, n = op.acc.type.shape[-2:]
    machine.advance(task, task.clock + model["tcgen05.issue"] * model.instructions(m, n, k, rate_bits))
    operands = model.shared_operands(m, n, k, *element_bits, op.a.type.space != "tmem")
    end = _on_tensor_cores(task, op, (task.cta, ), model.dot(m, n, k, rate_bits, operands), f"{m} x {n} x {k}")
    dot = _queued(task, InFlight("async_dot", task, op, end + model["tcgen05.latency"], lambda dot: None))
    if op.attrs.get("waits"):
        while not dot.landed:
            yield Wait(op, "group", task, lambda: "its own async_dot", lambda: list(task.tensor_work))
        task.wait_until(dot.end, op, "async_dot")
        task.floor = task.clock


def _on_tensor_cores(task: Task, op: Op, ctas: tuple, duration: float, label: str) -> float:
    """The time at which the tensor cores of all `ctas` are done, which begin when all are free."""
    units = [cta.sm.units["tensor"] for cta in ctas]
    start = max(task.clock, *(unit.free for unit in units))
    for cta, unit in zip(ctas, units):
        unit.take(start, duration)
        task.machine.record(cta, "tensor core", "dot", start, start + duration, label, op)
    return start + duration


@timed("tcgen05_mma_pair")
def tcgen05_mma_pair(task, op):
    a = op.a.type
    _multiply_pair(task, op, a.shape[-1], (a.element.bits, op.b.type.element.bits))


@timed("tcgen05_mma_pair_scaled")
def tcgen05_mma_pair_scaled(task, op):
    k, bits = _scaled(op)
    _multiply_pair(task, op, k, (bits, bits))


def _multiply_pair(task: Task, op: Op, k: int, element_bits: tuple[int, int]) -> None:
    """Each CTA of the pair multiplies its rows, and its shared memory gives half of the columns of B."""
    if not enabled(task, op, op.predicate):
        return
    machine, model = task.machine, task.machine.model
    (m, n), bits = op.acc.type.shape[-2:], element_bits[0]
    machine.advance(task, task.clock + model["tcgen05.issue"] * model.instructions(m, n, k, bits))
    operands = model.shared_operands(m, op.b.type.shape[-1], k, *element_bits, op.a.type.space != "tmem")
    ctas = task.cta, peer(task, op, op.peer)
    end = _on_tensor_cores(task, op, ctas, model.dot(2 * m, n, k, bits, operands, len(ctas)), f"pair: {2 * m} x {n} x {k}")
    _queued(task, InFlight("async_dot", task, op, end + model["tcgen05.latency"], lambda dot: None))


@timed("tmem_copy", "tmem_copy_pair")
def tmem_copy(task, op):
    """In the queue of products, and read from shared memory as their operands are, in each CTA its own."""
    if not enabled(task, op, op.predicate):
        return
    machine, model = task.machine, task.machine.model
    ctas = (task.cta, peer(task, op, op.peer)) if "pairs" in op.row.traits else (task.cta, )
    machine.advance(task, task.clock + model["tcgen05.issue"])
    taken = op.source.type.bytes / model["tensor.operand_bytes"]
    end = max(cta.sm.units["tensor"].take(task.clock, taken) for cta in ctas)
    _queued(task, InFlight("tmem_copy", task, op, end + model["tcgen05.latency"], lambda copy: None))


@timed("tcgen05_commit")
def tcgen05_commit(task, op):
    if enabled(task, op, op.predicate):
        _commit(task, op, [single(task, op, op.barrier)])


@timed("tcgen05_commit_pair")
def tcgen05_commit_pair(task, op):
    if enabled(task, op, op.predicate):
        barrier = single(task, op, op.barrier)
        ranks = sorted({position(task, op, target) for target in op.targets})
        _commit(task, op, [barrier_of(peer(task, op, rank), barrier, task, op) for rank in ranks])


def _commit(task: Task, op: Op, barriers: list[Mbarrier]) -> None:
    """One arrival on each of the barriers when all that the task has queued is done."""
    end = max(task.clock, task.tensor_work[-1].end) if task.tensor_work else task.clock

    def land(commit: InFlight) -> None:
        for barrier in barriers:
            barrier.arrive_of(commit)

    commit = _queued(task, InFlight("tcgen05_commit", task, op, end, land))
    for barrier in barriers:
        barrier.expect(commit)
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
