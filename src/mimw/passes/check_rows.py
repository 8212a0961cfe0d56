"""Copies of picked rows whose first column is known and cannot be.

Input: a program and its target. Output: nothing, or an `IllegalCopy` with the line and the sum. For example:

    tlx.async_descriptor_gather(desc, tile, rows, 12, full)       refused for fp16: 24 bytes are no multiple of 16

The hardware answers with an illegal instruction. A column that is known only at run time is left to the simulator and the author.
"""

from __future__ import annotations

from ..analysis import constant_of, never_runs, uses_of
from ..errors import IllegalCopy
from ..ir import Program
from ..target import Target
from ..tensor_map import rows_problem


def check_rows(program: Program, target: Target) -> None:
    """Raise `IllegalCopy` for the first copy of picked rows from a column that TMA cannot take."""
    if not target.has("tma"):
        return
    uses = uses_of(program)
    for op in program.where(lambda row: {"descriptor", "rows", "column"} <= row.places.keys()):
        column, size = constant_of(uses, op.column), op.descriptor.type.element.bytes
        problem = rows_problem(column, None, None, size, writes=op.row.copy == "out")
        if problem and not never_runs(uses, op):
            raise IllegalCopy(f"{op.row.word}: {problem[0]}.", op.site, hint=f"{problem[1]}.")
