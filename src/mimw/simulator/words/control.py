"""Control flow: `if`, `for`, `while`, and the tasks of `warp_specialize`.

Input: a task at an op with regions. Output: the regions' blocks run, and the values that they hand on, as the op's row says.

    %end = for %0 %n %1 (%init)      the body runs n times; its yield becomes the next %acc, then %end

Values move between regions as they are, so a loop may carry an asynchronous dot that no wait has finished.
"""

from __future__ import annotations

import numpy as np

from ...compiler.analysis.barrier_ops import task_names
from ...ir import Block
from ...ir.flow import bounds, terminator
from ..machine.guarded import PerThread
from ..machine.interpreter import run_code
from ..machine.limits import count, endless_step
from ..machine.table import handles
from ..machine.tasks import Task, Wait
from ..memory.values import numpy_type
from .lanes import merged, refuse_collective


@handles("yield", "condition")
def hand_on(task, op):
    """The op around the block takes the values."""


@handles("if")
def if_(task, op):
    condition = task.read(op.condition, op)
    if condition.__class__ is PerThread:
        yield from _if_apart(task, op, np.asarray(condition))
        return
    block = op.blocks[0 if bool(condition) else 1]
    yield from run_code(task, task.code(block))
    _assign(task, op.results, _values(task, block.yielded))


def _if_apart(task, op, condition):
    """Each branch for the threads that take it."""
    around, given = task.active, []
    for block, lanes in zip(op.blocks, (condition, ~condition)):
        lanes = lanes if around is None else around & lanes
        if lanes.any():
            refuse_collective(task, block, op)
            task.active = lanes
            yield from run_code(task, task.code(block))
            task.active = around
        given.append(_values(task, block.yielded) if lanes.any() else [None] * len(op.results))
    _assign(task, op.results, [merged(task, condition, result, *both) for result, *both in zip(op.results, *given)])


@handles("for")
def for_(task, op):
    start, end, step = (int(task.read(bound, op)) for bound in bounds(op))
    block = op.blocks[0]
    induction, *carried = block.args
    kind = numpy_type(induction.type).type
    values = _values(task, op.inits)
    task.loops.append(op)
    if not step or step < 0 and start < end:
        raise endless_step(task, step)
    trips = range(start, end, step) if step > 0 else range(0)  # scf.for goes on while index < end, whatever its step
    count(task, op, len(trips))
    code = task.code(block) if trips else None
    for index in trips:
        task.env[induction] = kind(index)
        _assign(task, carried, values)
        yield from run_code(task, code)
        values = _values(task, block.yielded)
    task.loops.pop()
    _assign(task, op.results, values)


@handles("while")
def while_(task, op):
    before, after = op.blocks
    last = terminator(before)
    values = _values(task, op.inits)
    task.loops.append(op)
    while True:
        _assign(task, before.args, values)
        yield from run_code(task, task.code(before))
        going_on, values = bool(task.read(last.condition, op)), _values(task, last.values)
        if not going_on:
            break
        _assign(task, after.args, values)
        yield from run_code(task, task.code(after))
        values = _values(task, after.yielded)
        task.trips += 1
        if task.trips > task.look:
            count(task, op, 0)
    task.loops.pop()
    _assign(task, op.results, values)


@handles("warp_specialize")
def warp_specialize(task, op):
    """Every region becomes a task with a copy of what this one knows; this one goes on when all have ended."""
    children, starts = [], first_warps(op.attrs["tasks"])
    task.cta.drop(task, task_names(op))
    for name, spec, block, warp in zip(task_names(op), op.attrs["tasks"], op.blocks, starts):
        child = task.machine.task_class(task.machine, task.cta, name, dict(task.env), spec.num_warps, warp, task.clock, task)
        children.append(_spawn(child, block))
    given = children[0].env  # a task that ends lets go of what it knows
    task.end_stretch()
    while any(not child.finished for child in children):
        yield Wait(op, "join", task, lambda: "its tasks to end")
    task.machine.order.join(task, children)
    task.clock = task.stretch = max(child.clock for child in children)
    _assign(task, op.results, [given[value] for value in op.blocks[0].yielded])


def first_warps(tasks) -> list[int]:
    """Each task's first warp in the CTA, as Triton numbers them (AllocateWarpGroups): the default task's, then the others,
    wider ones first. The idle warps that fill up the last group of four stand among them as one task of two warps and
    one of one, behind the author's tasks of that size."""
    idle = -sum(task.num_warps for task in tasks if not task.is_default) % 4
    sizes = [task.num_warps for task in tasks] + [size for size in (2, 1) if idle & size]
    order = sorted(range(len(sizes)), key=lambda index: (index >= len(tasks) or not tasks[index].is_default, -sizes[index]))
    starts, start = [0] * len(sizes), 0
    for index in order:
        starts[index] = start
        start += sizes[index]
    return starts[:len(tasks)]



def _spawn(task: Task, block: Block) -> Task:
    return task.machine.spawn(task, block)


def _values(task, values) -> list:
    env = task.env
    return [env[value] for value in values]


def _assign(task, targets, values) -> None:
    task.env.update(zip(targets, values))
