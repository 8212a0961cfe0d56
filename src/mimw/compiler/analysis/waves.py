"""Waves that a SIMD of AMD's compute units holds at once: by the registers of a lane, and work-groups by LDS and waves.

Input: the registers that a lane of a kernel has, its waves and bytes of LDS. Output: `Occupancy`. For example, on gfx950:

    occupancy(168, 4, 65536, 163840)      Occupancy(waves=3, groups=2, by="LDS")
    waves_by_registers(129)               3: registers are allotted in steps of 8, so a lane has 136 of 512

Sources: LLVM, User Guide for AMDGPU Backend, and the CDNA 3 and 4 ISA documents: 512 unified vector registers of a lane and SIMD,
four SIMDs a compute unit, at most 8 waves each.
"""

from __future__ import annotations

from dataclasses import dataclass

SIMDS, REGISTERS, STEP, MOST = 4, 512, 8, 8


@dataclass(frozen=True)
class Occupancy:
    """`waves` that a SIMD could hold by their registers, `groups` (work-groups) that a compute unit holds, and what limits them."""

    waves: int
    groups: int
    by: str


def waves_by_registers(registers: int) -> int:
    """Waves of a SIMD whose lanes have so many registers each; 0 if not even one fits."""
    allotted = -(-max(1, registers) // STEP) * STEP
    return min(MOST, REGISTERS // allotted)


def occupancy(registers: int, waves: int, shared_bytes: int, shared_of_unit: int) -> Occupancy:
    """Work-groups of `waves` waves on a compute unit with so many bytes of LDS; waves are dealt to the SIMDs in turn."""
    held, each = waves_by_registers(registers), -(-waves // SIMDS)
    limits = {"registers": held * SIMDS // waves if waves < SIMDS else held // each, "waves": MOST * SIMDS // max(waves, 1),
              "LDS": shared_of_unit // shared_bytes if shared_bytes else MOST * SIMDS}
    by = min(limits, key=limits.get)
    return Occupancy(held, limits[by], by)
