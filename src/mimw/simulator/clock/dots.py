"""Dots, foreign code and waits on the machine with a clock.

Input: a timed task at such an op. Output: busy tensor cores, or a task that goes on when what it waits for is done, and later by
what waking takes. For example:

    async_dot        takes "tensor" for m * n * k / rate; the task goes on when the dot issued before this one is done
    barrier_wait     as on the other machine, then `barrier.wake` if the task had to wait
"""

from __future__ import annotations

from collections.abc import Iterator

from ...ir import Op, Tensor
from ..machine.table import HANDLERS
from ..machine.tasks import InFlight, Task, Wait, all_but
from ..words.assembly import plain_instructions
from .pipelined import by_warpgroups
from .table import TIMED, skip, timed
from .tasks import Pending, TimedTask

PRODUCT = "a product"   # what a task waits for whose tile is the sum of one
WIDEST = 16     # bytes of a lane: operands of matrix instructions are read so, or by reads of 8 that turn them, which are as fast


def _dot(task: Task, op: Op) -> tuple[float, float]:
    """(start, end) on the tensor cores."""
    machine, (m, n), k = task.machine, op.results[0].type.shape[-2:], op.a.type.shape[-1]
    found = machine.model.product(op, task.num_warps)
    duration = found.cycles * found.share / _rate(task, op)
    end = machine.unit(task, "tensor").take(task.clock, duration)
    machine.record(task.cta, "tensor core", "dot", end - duration, end, f"{m} x {n} x {k}", op)
    return end - duration, end - duration + found.cycles / _rate(task, op)


def _rate(task: Task, op: Op) -> float:
    """The share of the tensor cores' rate that an instruction of single warps reaches."""
    by_warps = op.name == "dot" and not by_warpgroups(op, task.num_warps)
    return task.machine.model.get("tensor.warp_share", 1.0) if by_warps else 1.0


def _operands_read(task: Task, op: Op) -> float:
    """The time at which the operands are in registers, of a dot that takes both out of them: reads of shared memory, and writes
    before them where a tile came from elsewhere. They go on beside the product."""
    machine, model, end = task.machine, task.machine.model, task.clock
    for source, value, size in zip(machine.operands[op], (op.a, op.b), model.operand_reads(op, task.num_warps)):
        size /= task.parts
        if source.kind == "global":
            held = value.type.numel * value.type.element.bytes / task.parts
            end = machine.through_shared(task, model.shared(held, WIDEST, reads=False) + model.shared(size, WIDEST))
        elif source.read in machine.with_products:
            end = machine.through_shared(task, model.shared(size, WIDEST), machine.turns.get(source.read, 1.0))
    return end


@timed("async_dot")
def async_dot(task, op):
    """The issue of a dot ends when the one before it has, as the warpgroup's queue is that long (docs/TIMING.md)."""
    machine, before = task.machine, task.dots[-1] if task.dots else None
    _, end = _dot(task, op)
    task.env[op.result] = None
    if before is not None and before.end > task.clock:
        task.end_stretch()
        machine.record(task.cta, task.name, "dot", task.clock, before.end, "dots before it", op)
        task.clock = task.stretch = before.end

    def land(dot: InFlight) -> None:
        task.dots.remove(dot)

    task.dots.append(machine.start(InFlight("async_dot", task, op, end + machine.model["tensor.latency"], land)))
    machine.advance(task, task.clock)


@timed("async_dot_wait")
def async_dot_wait(task, op):
    yield None
    wanted = list(task.dots)[:max(0, len(task.dots) - int(op.pending))]
    end = max((dot.end for dot in wanted), default=0.0)
    while any(not dot.landed for dot in wanted):
        yield Wait(op, "group", task, lambda: f"{len(wanted)} asynchronous dots of its own", lambda: wanted)
    task.wait_until(end, op, all_but("dots", int(op.pending)))
    task.floor = task.clock
    task.env[op.result] = None


@timed("extern_elementwise", "inline_asm")
def foreign(task, op):
    """Assembly of plain instructions takes as many issues; other code that the IR does not know is as slow as a special function on
    each element."""
    machine, model, plain = task.machine, task.machine.model, op.name == "inline_asm" and plain_instructions(op)
    elements = max((value.type.numel / task.parts for value in (*op.results, *op.operands) if isinstance(value.type, Tensor)),
                   default=1)
    task.arrive(op)
    cost = {"issue": plain * elements / op.pack / model["rate.int"]} if plain else {"special": elements / model["rate.special"]}
    machine.work(task, cost, model.slowdown(task.num_warps))
    skip(task, op)


@timed("vote_ballot")
def vote_ballot(task, op):
    task.clock += task.machine.model["issue.scalar"]
    skip(task, op)


@timed("dot", "dot_scaled")
def dot(task, op):
    machine = task.machine
    if op not in machine.operands:
        _by_tensor_core(task, op)
        skip(task, op)
        return
    task.arrivals.pop(op.acc, None)         # the matrix core adds in the order in which it is asked
    skip(task, op)
    if task.halves is not None:
        task.arrive(op)
        task.products.append(Pending(op, task.clock, _operands_read(task, op)))
        return
    read = _operands_read(task, op)
    start, end = _dot(task, op)
    machine.advance(task, start)            # what does not need the result goes on between the instructions of the product
    task.issued = end - machine.model.product(op, task.num_warps).instruction
    task.arrivals[op.result] = max(read, end) + machine.model["tensor.latency"], PRODUCT


def _by_tensor_core(task: TimedTask, op: Op) -> None:
    """A product of an SM's tensor cores. What has just been loaded goes through shared memory first. In a loop that Triton
    pipelines the product of warpgroups is under way while the next trip begins, which waits for the one before it."""
    machine, model = task.machine, task.machine.model
    ahead = op in machine.pipelined.products
    through = 0 if ahead else sum(value.type.numel * value.type.element.bytes for value in (op.a, op.b) if value in task.arrivals)
    before = task.arrivals.get(op.acc)
    if before is not None and before[1] == PRODUCT:
        del task.arrivals[op.acc]               # tensor cores add in the order in which they are asked
    task.arrive(op)
    if through:
        machine.advance(task, machine.through_shared(task, through / model["shared.bytes"]) + model["shared.store_latency"])
    if ahead:
        machine.advance(task, task.clock + model["copy.wait"] + model["barrier.named"])
    if not (ahead and by_warpgroups(op, task.num_warps)):
        _, end = _dot(task, op)
        machine.advance(task, end + model["tensor.latency"])
    else:
        machine.advance(task, task.clock + model["tensor.issue"])
        _, end = _dot(task, op)
        if before is not None and before[0] > task.clock:
            task.wait_until(before[0], op, "the product before it")
            task.floor = task.clock
        task.arrivals[op.result] = end + model["tensor.latency"], PRODUCT
    task.product_end = end


def issued(task: TimedTask) -> Iterator:
    """Issue the products of a half that are pending, instruction by instruction: whenever the cores are free, who asks may have
    them, the one of higher priority first."""
    machine, unit = task.machine, task.machine.unit(task, "tensor")
    while task.products:
        pending = task.products.pop(0)
        op, at = pending.op, pending.ready
        found = machine.model.product(op, task.num_warps)
        left, runs = max(1, round(found.cycles / task.parts / found.instruction)), []
        while left:
            while unit.free > task.clock:
                task.clock = unit.free
                yield None
            start = max(unit.free, at)
            many = max(1, min(left, machine.before_others(start, found.instruction)))
            at, left = unit.take(start, many * found.instruction), left - many
            task.clock = max(task.clock, at - found.instruction)
            task.halves.had_its_turn(task)
            if runs and runs[-1][1] == start:
                runs[-1][1] = at
            else:
                runs.append([start, at])
        (m, n), k = op.results[0].type.shape[-2:], op.a.type.shape[-1]
        for begin, end in runs:
            machine.record(task.cta, "tensor core", "dot", begin, end, f"{m} x {n} x {k}, {task.name}", op)
        task.arrivals[op.result] = max(pending.read, at) + machine.model["tensor.latency"], PRODUCT
    task.floor = max(task.floor, task.clock)


# ---- waits ---------------------------------------------------------------------------------------------------------

def _waking(name: str, *figures: str):
    """The usual handler, then the time until the waiter goes on, if it had to wait: the first of these figures that a chip has."""
    usual = HANDLERS[name].run

    def run(task, op):
        before = task.clock
        if name == "cluster_barrier" and task.remote:       # it releases ordinary stores to other CTAs
            task.wait_until(max(store.end for store in task.remote), op, "its stores to other CTAs")
        yield from usual(task, op)
        if task.clock > before:
            model = task.machine.model
            task.clock += model[next((figure for figure in figures if figure in model.figures), figures[-1])]
        task.floor = task.clock

    TIMED[name] = run


_waking("barrier_wait", "barrier.wake")
_waking("named_barrier_wait", "barrier.named_wake")
_waking("cluster_barrier", "barrier.wake")
_waking("tma_store_wait", "barrier.wake")
_waking("async_wait", "copy.wake", "barrier.wake")
_waking("warp_specialize", "launch.join")
