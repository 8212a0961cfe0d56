"""A barrier of the whole work-group has no place in a task on gfx942 and gfx950.

Input: a program and its target. Output: nothing, or a `TaskError` with the lines of the barrier and of the task:

    with tlx.async_task(num_warps=4): tl.inline_asm_elementwise("s_barrier", ..)       refused

`s_barrier` counts every wave of a work-group there, and it is what tasks start and end with: who calls it inside a task meets the
waves of others that wait for their start, or their end. gfx1250 has barriers for a part of the waves, and so has NVIDIA.
"""

from __future__ import annotations

import re

from ...errors import TaskError
from ...ir import Op, Program
from ...target import Target
from ..analysis import task_label, uses_of

_OF_ALL = re.compile(r"\bs_barrier\b")


def check_group_barriers(program: Program, target: Target) -> None:
    """Raise `TaskError` at the first assembly of a task that holds an `s_barrier` of gfx9."""
    if target.assembly != "gfx9":
        return
    for op in program.where(lambda row: "assembly" in row.traits):
        task = uses_of(program).task(op)
        if task is not None and _meets_all(op):
            raise TaskError(f"s_barrier waits for every wave of the work-group on {target}, and task '{task_label(task)}' is some "
                            "of them: the others wait for their start or their end at the same barrier.", op.site, task.site,
                            hint="tl.debug_barrier() holds the task's own waves, tlx.named_barrier_wait those of several tasks.")


def _meets_all(op: Op) -> bool:
    return "assembly" in op.row.places and bool(_OF_ALL.search(op.assembly))
