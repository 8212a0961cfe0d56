"""Solved IR to TTGIR: replays each op on Triton's Gluon builder with the layouts that were chosen. The folder decides
nothing.

Input: a program after all passes, its layouts, a chip. Output: a module that Triton's passes take. For example
(`lower.py` has more):

    barrier_wait %full, 0               ttng.wait_barrier %full, %c0_i32, %true
"""

from .hopper.descriptor_address import needs_slots
from .lower import lower
from .words.views import transposed

__all__ = ["lower", "needs_slots", "transposed"]
