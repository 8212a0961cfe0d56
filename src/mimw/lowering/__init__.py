"""Solved IR to TTGIR: replays each op on Triton's Gluon builder with the layouts that were chosen. It decides nothing.

Input, output and an example: `lower.py`.
"""

from .hopper.descriptor_address import needs_slots
from .lower import lower
from .words.views import transposed

__all__ = ["lower", "needs_slots", "transposed"]
