"""Numbers that each lane loads for itself, so that they are awaited where they are used: program with tasks to program with tasks.

Input: the program, and the lines of floats that are loaded ahead (`small_loads.py`). Output: the program, with an address for each
lane. For example:

    s = tl.load(scales + k, mask=more)      becomes     i = tl.program_id(0)
                                                        s = tl.load(scales + k + (tlx.thread_id(0) & (i * (i + 1) & 1)), mask=more)

A number that all lanes load ptxas moves to a uniform register, and it puts the move, which waits for the load, in front of a
product of the same trips: fp8 with scales of blocks waited so for L2 with one product under way (benchmarks/notes/orchestrate.md).
What is added here is 0, as i (i + 1) is even, which neither LLVM nor ptxas finds out.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from ...ir import Builder, Op, Program, Scalar, Site


def in_lanes(program: Program, lines: Collection[Site]) -> Program:
    """The program with such addresses for the floats that are loaded on these lines; itself if there are none."""
    found = {op for op in program.walk() if op.row.loads and op.site in lines
             and isinstance(op.result.type, Scalar) and op.result.type.is_float}
    if not found:
        return program
    b = Builder(program.site)

    def change(op: Op) -> None:
        number = b.emit("get_program_id", (0, ), op.site)
        even = b.emit("mul", (number, b.by_constant("add", number, 1, op.site)), op.site)
        none = b.emit("and", (b.emit("thread_id", (0, ), op.site), b.by_constant("and", even, 1, op.site)), op.site)
        b.ops.append(op.with_operands(pointer=b.emit("addptr", (op.pointer, none), op.site)))

    return replace(program, body=b.anew(program.body, found, change))
