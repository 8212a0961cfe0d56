"""Remarks on register requests that will not be granted.

Input: a program and its target. Output: a `Remark` for each region (`analysis.remarks`), never a refusal:

    async_task(num_warps=8, registers=240, replicate=2)       20 warps, each thread has 96 registers at most

A request that does not fit is legal: no registers are moved and the kernel runs, only not as its author meant.
"""

from __future__ import annotations

from ...ir import Program
from ...target import Target
from ..analysis import Remark, register_remarks


def check_registers(program: Program, target: Target) -> tuple[Remark, ...]:
    """Remarks on regions whose requests together, or one by one, are more than there is."""
    return register_remarks(program, target)
