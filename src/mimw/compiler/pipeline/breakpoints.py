"""The note on a kernel that says `breakpoint()` and is compiled: the binary has no trace of it.

Input: a program that is about to be lowered. Output: a warning at the line of its first breakpoint, or none. For example:

    note_breakpoints(program)       RemarkWarning: breakpoint() stops in the simulator only: the compiled kernel runs past it

The simulator records and checks the same program, and does not come here: there it stops.
"""

from __future__ import annotations

from ...errors import RemarkWarning
from ...ir import Program, warn_at


def note_breakpoints(program: Program) -> None:
    """Warn of breakpoints that a binary leaves out."""
    for op in program.named("breakpoint")[:1]:
        warn_at(RemarkWarning, "breakpoint() stops in the simulator only: the compiled kernel runs past it", op.site)
