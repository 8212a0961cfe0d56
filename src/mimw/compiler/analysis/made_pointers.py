"""Detection of kernels that compute addresses or read them from memory, instead of using only their pointer arguments.

Input: a program. Output: a bool. For example:

    tl.load(table + i).to(tl.pointer_type(tl.float16))      True: the number out of the table becomes a pointer
    tl.load(x + i)                                          False
"""

from __future__ import annotations

from ...ir import Pointer, Program
from ...ir.types import element_of


def makes_pointers(program: Program) -> bool:
    """True if any op converts a number to a pointer, or loads a pointer from memory."""
    return any(op.name == "int_to_ptr" or op.row.loads and any(isinstance(element_of(one.type), Pointer) for one in op.results)
               for op in program.walk())
