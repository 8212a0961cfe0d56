"""A barrier of the whole work-group has no place in a kernel with tasks on gfx942 and gfx950.

Input: a program and its target. Output: nothing, or a `TaskError` with the lines of the barrier and of the tasks:

    with tlx.async_task(num_warps=4): tl.inline_asm_elementwise("s_barrier", ..)       refused

`s_barrier` counts every wave of a work-group there, and it is what tasks start and end with: who calls it, in a task or ahead of
them, meets waves of others that wait for their start. gfx1250 has barriers for a part of the waves, and so has NVIDIA.
"""

from __future__ import annotations

import re

from ...errors import TaskError
from ...ir import Op, Program
from ...target import Target
from ..analysis.registers import regions

_OF_ALL = re.compile(r"\bs_barrier\b")


def check_group_barriers(program: Program, target: Target) -> None:
    """Raise `TaskError` at the first assembly with an `s_barrier` of gfx9 in a kernel with tasks."""
    if target.assembly != "gfx9" or not (found := regions(program)):
        return
    for op in program.where(lambda row: "assembly" in row.traits):
        if _meets_all(op):
            raise TaskError(f"s_barrier waits for every wave of the work-group on {target}, and in a kernel with tasks the waves "
                            "of the others wait for their start at the same barrier.", op.site, found[0].site,
                            hint="tl.debug_barrier() holds the task's own waves, tlx.named_barrier_wait those of several tasks.")


def _meets_all(op: Op) -> bool:
    return "assembly" in op.row.places and bool(_OF_ALL.search(op.assembly))
