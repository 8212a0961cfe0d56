"""Emissions that are assembly of AMD's chips.

Input: an op. Output: assembly in Triton's IR:

    clock64        s_memtime $0
"""

from . import barriers, matrix_registers, phases, registers, scheduling, world  # noqa: F401
