"""How many tasks compute, and with how many warps: the shapes that the search tries for a chip.

Input: a plain program, and the chip. Output: pairs of (tasks that share out the rows, warps of each; None for the plain kernel's,
shared out). For example:

    task_shapes(program, target("sm_90a"))      (2, None), (1, None), (1, 8)
    task_shapes(program, target("sm_100a"))     (1, None), (1, 8) of 128 rows; (2, None) of 256 rows
"""

from __future__ import annotations

from ...ir import Program
from ...target import Target

ROWS = 128          # that tcgen05 multiplies at a time; of 64 it does half as many in the same time


def task_shapes(program: Program, chip: Target) -> list[tuple[int, int | None]]:
    """The shapes, in the order in which they are tried."""
    warps = program.num_warps
    if not chip.has("tensor_memory"):
        return [(2, None), (1, None)] + [(1, 8)] * (warps < 8) + [(2, 8)] * (warps >= 16)
    rows = min((op.a.type.shape[-2] for op in program.named("dot")), default=ROWS)
    if rows >= 2 * ROWS:
        return [(2, None)] + [(2, 8)] * (warps >= 16)
    return [(1, None)] + [(1, 8)] * (warps < 8) + [(1, 4)] * (warps > 4)
