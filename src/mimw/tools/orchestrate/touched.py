"""Whether the assembler lets a plan's code touch registers of a product under way: such a plan is not taken.

Input: a compiled kernel for Hopper. Output: a sentence with the first such instruction, or "". For example:

    touched(made)       '42 instructions touch registers of a product under way, as 0x1270: LDS.U16 R60, ... writes R60, which ...'

No proof sees it: the simulator knows no registers, and ptxas says nothing. Only code with products that take A from registers is
read, half a second each: where A and B lie in shared memory ptxas itself ends each product for which it knows no wait.
"""

from __future__ import annotations

from ...ir import Tensor
from ...runtime.compiled import Compiled
from ..sass import touches
from .written import Written


def takes_registers(one: Written) -> bool:
    """True if a product of a kernel for Hopper takes a tile from registers."""
    if one.kernel is None or one.plain.chip.name != "sm_90a":
        return False
    return any(isinstance(op.a.type, Tensor) for op in one.launch().program.named("async_dot"))


def touched(made: Compiled) -> str:
    """A sentence about what is wrong with the machine code; "" if nothing is, or nothing here prints it."""
    try:
        found = touches(made.stage("sass"))
    except (OSError, RuntimeError):     # no cuobjdump: nobody knows
        return ""
    return f"{len(found)} instructions touch registers of a product under way, as {found[0]}" if found else ""
