"""The section of `mimw explain` on waves: how many of a kernel a compute unit of AMD's holds at once, and what was spilled.

Input: a kernel compiled for an AMD chip. Output: a few lines; empty for other chips. For example:

    registers   136 of 512 a lane: 3 waves a SIMD
    LDS         98304 of 163840 bytes: 1 work-group of 4 waves a compute unit, which LDS limits
    spills      none
"""

from __future__ import annotations

from typing import Any

from ...compiler.analysis.waves import REGISTERS, occupancy
from ...compiler.pipeline.binary import kept_by_amdgcn

HEADING = "Waves at once"
_KNOWN = "gfx9"     # the assembly of chips whose register file is published


def occupancy_text(compiled: Any) -> str:
    if compiled.target.backend != "hip":
        return ""
    spilled, limit = compiled.spilled_registers, compiled.target.shared_bytes
    counters = kept_by_amdgcn(compiled.stages["amdgcn"])
    taken = compiled.shared_bytes + counters
    besides = f", {counters} of them counters, for which no launch asks" if counters else ""
    lines = [f"spills      {f'{spilled} registers a lane, in {compiled.stack_bytes} bytes of scratch' if spilled else 'none'}"]
    if compiled.target.assembly == _KNOWN:
        found = occupancy(compiled.registers, compiled.warps, taken, limit)
        groups = f"{found.groups} work-group{'s' * (found.groups != 1)} of {compiled.warps} waves"
        lines = [f"registers   {compiled.registers} of {REGISTERS} a lane: {found.waves} wave{'s' * (found.waves != 1)} a SIMD",
                 f"LDS         {taken} of {limit} bytes{besides}: {groups} a compute unit, which {found.by} "
                 f"limit{'s' * (found.by == 'LDS')}", *lines]
    else:
        lines = [f"registers   {compiled.registers} a lane; how many a SIMD has is not published",
                 f"LDS         {taken} of {limit} bytes{besides}", *lines]
    return "\n".join(lines)
