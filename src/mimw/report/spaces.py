"""The memory spaces of a chip that a program uses: the size of each, and the buffers in it with their lifetimes.

Input: a program after the passes, and a chip. Output: text, for `mimw explain` on chips without shared memory:

    space   of each       needed   bytes    copies by
    ub      vector core     8192   196608   MTE3 to global

    ub, the unified buffer (UB)
       0 .. 4096  a  buffer  4096 bytes  |..####..|
"""

from __future__ import annotations

from ..compiler.storage import use_of
from ..ir import Program
from ..target import GLOBAL, Target
from .table import table


def space_table(program: Program, target: Target) -> str:
    """The spaces of `target` with the bytes that `program` needs of each at once, then a map of each that it uses."""
    used = [use_of(program, space) for name, space in target.spaces.items() if name != GLOBAL]
    rows = [(use.space.name, use.space.unit, use.peak, use.space.bytes,
             ", ".join(f"{path.engine} to {path.to}" for path in use.space.copies) or "-") for use in used]
    maps = [f"{use.space.name}, {use.space.title}\n{use.map().rstrip()}" for use in used if use.entries]
    return "\n\n".join([table(("space", "of each", "needed", "bytes", "copies by"), rows, right=("needed", "bytes")), *maps]) + "\n"
