"""Stages of a loop, which two halves of the waves run one stage apart.

Input: a task at an op of `ir/ops/warp_stages.py`. Output: none: values are those of the body in order. What the halves may do to
each other's shared memory `memory_model/halves.py` looks at, which is told where stages begin and what has been waited for:

    halves_part ... stage_start      from here on accesses are held against those of this stage and the one before
"""

from __future__ import annotations

from ..machine.table import handles


@handles("halves_part")
def halves_part(task, op):
    task.machine.order.part(task)


@handles("stage_start")
def stage_start(task, op):
    task.machine.order.next_stage(task, op.attrs.get("bare", False))


@handles("stage_end")
def stage_end(task, op):
    """Say nothing: a stage lasts until the next one starts, and a wait behind it counts for it."""


@handles("halves_meet")
def halves_meet(task, op):
    task.machine.order.meet(task)
