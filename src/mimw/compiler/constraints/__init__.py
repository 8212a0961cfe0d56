"""The layout solver: which thread holds which elements, and how buffers lie, for a whole program at once.

Input: a program after all passes, and a chip. Output: `Layouts`, or a `LayoutConflict` with the lines that disagree.
For example:

    solve_layouts(program, target("sm_90a"))        nvmma(128) for the buffer that a TMA load fills and a dot reads
"""

from .buffers import wanted_alignments
from .solution import Layouts
from .solver import solve_layouts

__all__ = ["Layouts", "solve_layouts", "wanted_alignments"]
