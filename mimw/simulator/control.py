"""Control flow: `if`, `for`, `while`, and the tasks of `warp_specialize`.

Values move between regions as they are: an asynchronous dot may be carried through loops without being waited for.
"""

from __future__ import annotations

from ..ir import Block
from .deadlock import task_names
from .interpreter import run_block
from .table import handles
from .tasks import Task, Wait
from .values import numpy_type


@handles("yield", "condition")
def terminator(task, op):
    """The op around the block takes the values."""


@handles("if")
def if_(task, op):
    block = op.blocks[0 if bool(task.read(op.args[0], op)) else 1]
    yield from run_block(task, block)
    _assign(task, op.results, _values(task, block.yielded))


@handles("for")
def for_(task, op):
    start, end, step = (int(task.read(arg, op)) for arg in op.args[:3])
    block = op.blocks[0]
    induction, *carried = block.args
    kind = numpy_type(induction.type).type
    values = _values(task, op.args[3])
    for index in range(start, end, step):
        task.env[induction] = kind(index)
        _assign(task, carried, values)
        yield from run_block(task, block)
        values = _values(task, block.yielded)
    _assign(task, op.results, values)


@handles("while")
def while_(task, op):
    before, after = op.blocks
    values = _values(task, op.args[0])
    while True:
        _assign(task, before.args, values)
        yield from run_block(task, before)
        condition, values = before.ops[-1].args
        going_on, values = bool(task.read(condition, op)), _values(task, values)
        if not going_on:
            break
        _assign(task, after.args, values)
        yield from run_block(task, after)
        values = _values(task, after.yielded)
    _assign(task, op.results, values)


@handles("warp_specialize")
def warp_specialize(task, op):
    """Every region becomes a task with a copy of what this one knows; this one goes on when all have ended."""
    warp, children = 0, []
    for name, spec, block in zip(task_names(op), op.attrs["tasks"], op.blocks):
        child = Task(task.machine, task.cta, name, dict(task.env), spec.num_warps, warp, task.clock, task)
        children.append(_spawn(child, block))
        warp += spec.num_warps
    task.end_stretch()
    while any(not child.finished for child in children):
        yield Wait(op, "join", task, lambda: "its tasks to end")
    task.clock = task.stretch = max(child.clock for child in children)


def _spawn(task: Task, block: Block) -> Task:
    return task.machine.spawn(task, block)


def _values(task, values) -> list:
    return [task.env[value] for value in values]


def _assign(task, targets, values) -> None:
    for target, value in zip(targets, values):
        task.env[target] = value
