"""An asynchronous dot is issued by whole warpgroups, so its task has a multiple of four warps.

Input: a program. Output: nothing, or a `TaskError` with the lines of the dot and of the task:

    with tlx.async_task(num_warps=2): acc = tlx.async_dot(a, b, acc)       refused

PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate": a warpgroup is four contiguous warps whose first has
a number that is a multiple of four. Triton gives wide tasks their warps before narrow ones, so a task of 4, 8 or 16
warps starts at one.
"""

from __future__ import annotations

from ...errors import TaskError
from ...ir import Block, Op, Program, Task
from ...target import Target
from ..analysis import task_label

_GROUP = 4


def check_warpgroups(program: Program, target: Target) -> None:
    """Raise `TaskError` at the first `async_dot` of a task, or of a kernel without tasks, whose warps are no whole warpgroups."""
    if program.named("async_dot"):
        _visit(program.body, program.num_warps, None)


def _visit(block: Block, num_warps: int, task: Task | None) -> None:
    for op in block.ops:
        if op.name == "async_dot" and num_warps % _GROUP:
            _refuse(op, num_warps, task)
        tasks = op.attrs["tasks"] if op.name == "warp_specialize" else [None] * len(op.blocks)
        for inner, description in zip(op.blocks, tasks, strict=True):
            own = num_warps if description is None or description.is_default else description.num_warps
            _visit(inner, own, description or task)


def _refuse(op: Op, num_warps: int, task: Task | None) -> None:
    who = f"task '{task_label(task)}'" if task else "this kernel"
    wanted = -(-num_warps // _GROUP) * _GROUP
    where = f"async_task(num_warps={wanted})" if task and not task.is_default else f"a launch with num_warps={wanted}"
    raise TaskError(
        f"async_dot is issued by whole warpgroups of {_GROUP} warps; {who} has {num_warps} = {num_warps // _GROUP} * {_GROUP} + "
        f"{num_warps % _GROUP}.", op.site, task.site if task else None, hint=f"use {where}.")
