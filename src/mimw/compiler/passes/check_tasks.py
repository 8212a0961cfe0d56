"""Limits of tasks: the values that they may capture, and the warps that they may have together.

Input: a program and its target. Output: nothing, or `TaskError` or `TooManyWarps` with the author's lines. For example:

    at = tl.arange(0, 64)
    with tlx.async_task(num_warps=4): tl.load(p + at)       refused: `at` lies in the registers of the default task's warps

A task starts with the scalars, pointers, buffers and barriers of the kernel around it. A block tensor lies in the
registers of the default task's warps, where no other task can read it.
"""

from __future__ import annotations

from ...errors import TaskError, TooManyWarps
from ...ir import Block, Op, Program, Task, Tensor, Value
from ...target import Target
from ..analysis import Uses, task_label, total_warps, uses_of
from ..analysis.registers import regions


def check_tasks(program: Program, target: Target) -> None:
    """Raise `TaskError` for a block tensor captured by a task other than the default one, and for a default task that is no whole
    number of warpgroups; `TooManyWarps` for a CTA with more warps than `target` runs."""
    uses = uses_of(program)
    for region in regions(program):
        for task, block in zip(region.attrs["tasks"], region.blocks, strict=True):
            if not task.is_default:
                _captures(uses, task, block, set())
    _default_warps(program)
    _warps(program, target)


def _captures(uses: Uses, task: Task, block: Block, inside: set[Value]) -> None:
    inside.update(block.args)
    for op in block.ops:
        for value in op.operands:
            if isinstance(value.type, Tensor) and value not in inside:
                _refuse(uses, task, op, value)
        inside.update(op.results)
        for inner in op.blocks:
            _captures(uses, task, inner, inside)


def _refuse(uses: Uses, task: Task, op: Op, value: Value) -> None:
    name = f"'{value.name}', " if value.name else ""
    raise TaskError(
        f"WarpSpecializeOp should not capture RankedTensorType: task '{task_label(task)}' uses {name}a block tensor {value.type} "
        f"that is made outside of it at {uses.site(value)}. A block tensor lies in the registers of the warps that made it.",
        op.site, uses.site(value),
        hint="move the tensor computation into the task (scalars, pointers, descriptors, buffers and barriers may be captured), "
        "or hand the tensor over through shared memory.")


def _default_warps(program: Program) -> None:
    """Registers move between warpgroups, and Triton numbers the tasks' warps from a multiple of four."""
    for region in regions(program):
        if program.num_warps % 4:
            raise TaskError(f"a kernel with tasks needs a default task of 4, 8, 16, ... warps; this one is launched with num_warps="
                            f"{program.num_warps}.", region.site, hint="launch with num_warps=4.")


def _warps(program: Program, target: Target) -> None:
    total = total_warps(program)
    if total <= target.max_warps:
        return
    largest = max(regions(program), key=_extra, default=None)
    parts = [f"{program.num_warps} (default)"]
    others = [task for task in largest.attrs["tasks"] if not task.is_default] if largest else []
    parts += [f"{task.num_warps} ({task_label(task)})" for task in others]
    plain = program.num_warps + sum(task.num_warps for task in others)
    filled = f", {total} in groups of 4" if total != plain else ""
    raise TooManyWarps(
        f"the tasks need {' + '.join(parts)} = {plain} warps{filled}; a CTA on {target} has at most {target.max_warps} "
        f"({target.max_threads} threads of {target.warp_size} a warp).",
        largest.site if largest else program.site, *(task.site for task in others),
        hint=f"take {total - target.max_warps} warps away: fewer replicas, or fewer warps a task.")


def _extra(region: Op) -> int:
    return sum(task.num_warps for task in region.attrs["tasks"] if not task.is_default)
