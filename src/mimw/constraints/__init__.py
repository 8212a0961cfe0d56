"""The layout solver: which thread holds what, and how buffers lie, for a whole program at once."""

from .buffers import wanted_alignments
from .solution import Layouts
from .solver import solve_layouts

__all__ = ["Layouts", "solve_layouts", "wanted_alignments"]
