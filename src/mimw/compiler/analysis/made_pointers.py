"""Whether a kernel reaches memory by addresses that it computes or reads, not only by its arguments.

Input: a program. Output: a bool. For example:

    tl.load(table + i).to(tl.pointer_type(tl.float16))      True: the number out of the table becomes a pointer
    tl.load(x + i)                                          False
"""

from __future__ import annotations

from ...ir import Pointer, Program
from ...ir.types import element_of


def makes_pointers(program: Program) -> bool:
    """Whether any op makes a pointer of a number, or reads a pointer from memory."""
    return any(op.name == "int_to_ptr" or op.row.loads and any(isinstance(element_of(one.type), Pointer) for one in op.results)
               for op in program.walk())
