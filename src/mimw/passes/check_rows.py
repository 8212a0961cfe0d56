"""Copies of picked rows whose first column is known and cannot be.

Input: a program and its target. Output: nothing, or a `KernelError` with the line and the sum. For example:

    tlx.async_descriptor_gather(desc, tile, rows, 12, full)       refused for fp16: 24 bytes are no multiple of 16

The hardware answers with an illegal instruction. A column that is known only at run time is left to the simulator and the author.
"""

from __future__ import annotations

from ..analysis import constant_of, uses_of
from ..errors import KernelError
from ..ir import Op, Program
from ..target import Target
from ..tensor_map import ROW_BYTES

_WIDEST = 32    # bits of an element, by the verifiers of tt.descriptor_gather and ttng.async_tma_gather


def check_rows(program: Program, target: Target) -> None:
    """Raise `KernelError` for the first copy of picked rows from a column that TMA cannot take."""
    uses = uses_of(program)
    for op in program.where(lambda row: {"descriptor", "rows", "column"} <= row.places.keys()):
        if target.has("gather4") and op.descriptor.type.element.bits > _WIDEST:
            raise KernelError(f"{op.row.word} copies elements of {op.descriptor.type.element}, and Triton's copies of four rows "
                              f"on {target} are of at most {_WIDEST} bits.", op.site,
                              hint="describe each as two elements of int32, in blocks of twice the columns.")
        column = constant_of(uses, op.column)
        if column is not None:
            _check(op, int(column))


def _check(op: Op, column: int) -> None:
    size = op.descriptor.type.element.bytes
    if column * size % ROW_BYTES:
        raise KernelError(f"{op.row.word} begins at column {column}: {column} elements x {size} bytes = {column * size} bytes, and "
                          f"TMA copies picked rows from multiples of {ROW_BYTES} bytes on.", op.site,
                          hint=f"begin at a multiple of {ROW_BYTES // size} columns.")
    if column < 0 and op.row.copy == "out":
        raise KernelError(f"{op.row.word} begins at column {column}, and TMA scatters to no negative columns.", op.site,
                          hint="begin inside of the tensor.")
