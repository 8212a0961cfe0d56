"""The columns of tensor memory, in the resource table.

Input: a program after the passes, and the chip. Output: a table with a row for each array, and the sum; or nothing:

      tensor memory   tile             buffers   first column   columns   every   columns shared with
      s               fp32[128, 128]         2              0       128     128   p
      p               fp16[128, 128]         2              0        64     128   s
"""

from __future__ import annotations

from ..compiler.storage import TensorArray, allocated_columns, columns, tensor_arrays
from ..ir import Program
from ..target import Target
from .table import Table

_NUMBERS = ("buffers", "first column", "columns", "every")


def column_parts(program: Program, target: Target) -> list[Table | str]:
    """A table with the columns of each array, and a line with the number of columns that the kernel allocates."""
    arrays, taken = tensor_arrays(program), allocated_columns(program)
    if not arrays:
        return []
    rows = Table(("tensor memory", "tile", *_NUMBERS, "columns shared with"), tuple(map(_row, arrays)), _NUMBERS)
    used = len(frozenset().union(*(columns(array.place) for array in arrays)))
    unused = f", {taken - used} of them not used: an allocation is a power of two" if taken > used else ""
    return [rows, f"tensor memory: {taken} of {target.tensor_memory_columns} columns{unused}"]


def _row(array: TensorArray) -> tuple:
    place, type_ = array.place, array.type
    every = place.size if place.group_size > 1 else place.stride
    return (array.name, f"{type_.element}{list(type_.shape)}", place.count, place.offset, place.size,
            every if place.count > 1 else "-", ", ".join(array.shared_with) or "-")
