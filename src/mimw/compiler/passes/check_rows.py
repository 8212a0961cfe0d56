"""Copies of picked rows whose first column is known and cannot be.

Input: a program and its target. Output: nothing, or an `IllegalCopy` with the line and the sum. For example:

    tlx.async_descriptor_gather(desc, tile, rows, 12, full)       refused for fp16: 24 bytes are no multiple of 16

The hardware answers with an illegal instruction. A column that is known only at run time is left to the simulator and the author.
"""

from __future__ import annotations

from ...errors import IllegalCopy, KernelError
from ...ir import Program
from ...ir.tensor_map import rows_problem
from ...target import Target
from ..analysis import constant_of, never_runs, uses_of

_WIDEST = 32    # bits of an element, by the verifiers of tt.descriptor_gather and ttng.async_tma_gather


def check_rows(program: Program, target: Target) -> None:
    """Raise `IllegalCopy` for the first copy of picked rows from a column that TMA cannot take."""
    if not target.has("tma"):
        return
    uses = uses_of(program)
    for op in program.where(lambda row: {"descriptor", "rows", "column"} <= row.places.keys()):
        if target.has("gather4") and op.descriptor.type.element.bits > _WIDEST:
            raise KernelError(f"{op.row.word} copies elements of {op.descriptor.type.element}, and Triton's copies of four rows "
                              f"on {target} are of at most {_WIDEST} bits.", op.site,
                              hint="describe each as two elements of int32, in blocks of twice the columns.")
        column, size = constant_of(uses, op.column), op.descriptor.type.element.bytes
        problem = rows_problem(column, None, None, size, writes=op.row.copy == "out")
        if problem and not never_runs(uses, op):
            raise IllegalCopy(f"{op.row.word}: {problem[0]}.", op.site, hint=f"{problem[1]}.")
