"""Emissions that only AMD's chips have, most of them assembly.

Input: an op. Output: assembly in Triton's IR, or Triton's ops for engines of these chips:

    clock64        s_memtime $0
"""

from . import barriers, groups, matrix_registers, mover, phases, prefetch, registers, scheduling, world  # noqa: F401
