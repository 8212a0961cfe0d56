"""The workspace for other GPUs that each program of a launch has: the most that any `world_scratch` of the kernel asks for.

Input: a program. Output: bytes, a multiple of 256. For example:

    %p, %s = world_scratch %world 4000; ...; %q, %t = world_scratch %world 100      workspace_stride(program) == 4096

One number for the whole kernel, since programs are not together: one may be at the first op while another is at the second, and
what they have there must not overlap. The ops of one program take turns.
"""

from __future__ import annotations

from .core import Program

ALIGNED = 256       # bytes: as heaps, so that accesses are as wide as to any array


def workspace_stride(program: Program) -> int:
    """The bytes from one program's workspace to the next one's; 0 of a kernel that has none."""
    return program.kept(_stride)


def _stride(program: Program) -> int:
    asked = max((op.bytes for op in program.where(lambda row: row.name == "world_scratch")), default=0)
    return -(-asked // ALIGNED) * ALIGNED
