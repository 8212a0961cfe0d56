"""Remarks on register requests that will not be met.

A request that does not fit is legal: no registers are moved and the kernel runs, only not as its author meant. So this
check never refuses; it says what it sees (`analysis.remarks`).
"""

from __future__ import annotations

from ..analysis import Remark, register_remarks
from ..ir import Program
from ..target import Target


def check_registers(program: Program, target: Target) -> tuple[Remark, ...]:
    """Remarks on regions whose requests together, or one by one, are more than there is."""
    return register_remarks(program, target)
