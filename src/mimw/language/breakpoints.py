"""Python's `breakpoint()` in a kernel: the simulator's debugger stops there.

Input: a call in a kernel, plain or under an `if`. Output: an op `breakpoint`, which has no other effect. For example:

    if tl.program_id(0) == 3:
        breakpoint()                    the debugger stops in this program only; a compiled kernel has no such op

The name needs no import, as in Python (docs/DEBUGGER.md).
"""

from __future__ import annotations

from .core import word


@word
def breakpoint_(_semantic=None) -> None:
    """Stop here in the simulator's debugger; do nothing on a GPU.

    errors:    TypeError for any argument
    """
    _semantic.builder.record("breakpoint")
