"""Words in LDS that the compiler takes on AMD besides what Triton's allocator knows: counters of syncs and of named barriers.

Input: a program and its target. Output: bytes, which come on top of the shared memory of buffers, barriers and scratch:

    counter_bytes(program, target("gfx942"))      16: a default task of 4 waves beside one of 2, a counter each, and padding

On gfx942 and gfx950 the waves of a task meet at a counter (`triton_port.gfx9_tasks`), one for each place and size of a task. Named
barriers are 16 counters on every chip of AMD's. A task of one wave has nobody to meet.
"""

from __future__ import annotations

from ...ir import Program
from ...target import Target
from .registers import regions

COUNTERS = "counters of the compiler"
_WORD, _STEP = 4, 16        # bytes of a counter, and what the place of the memory behind is a multiple of
_NAMED = 16                 # counters


def counter_bytes(program: Program, target: Target) -> int:
    """The bytes of a CTA's counters; 0 on other chips than AMD's."""
    if target.backend != "hip":
        return 0
    named = _NAMED if program.where(lambda row: "named" in row.traits) else 0
    met = set()
    if target.assembly == "gfx9":
        met = {(place, task.num_warps) for region in regions(program) for place, task in enumerate(region.attrs["tasks"])
               if task.num_warps > 1}
    return -(-_WORD * (named + len(met)) // _STEP) * _STEP
