"""A plain program in tasks, as the chip multiplies: into registers (`tasks.py`), or into tensor memory (`tensor_tasks.py`).

Input: a plain program, a `Plan`, the chip. Output: `Orchestrated`. For example:

    orchestrated(program, Plan(), target("sm_90a"))     a task that loads, one that computes and multiplies by wgmma
    orchestrated(program, Plan(), target("sm_100a"))    a task that loads, one that multiplies by tcgen05, one that computes

This is the one place that asks which chip it is.
"""

from __future__ import annotations

from collections.abc import Collection

from ...ir import Op, Program
from ...target import Target
from . import tasks, tensor_tasks
from .plan import Plan
from .tasks import Orchestrated


def orchestrated(program: Program, plan: Plan, target: Target, late: Collection[Op] = (),
                 tiles: Collection[Op] = (), settled: Collection[Op] = ()) -> Orchestrated:
    """The program in tasks, under a plan. `late` are products that run behind by a trip, `tiles` is the loop over tiles of
    `persist.py`, if there is one; `settled` are ops of `together.py`."""
    if target.has("tensor_memory"):
        return tensor_tasks.orchestrated(program, plan, target, tiles)
    return tasks.orchestrated(program, plan, target, late, tiles, settled)
