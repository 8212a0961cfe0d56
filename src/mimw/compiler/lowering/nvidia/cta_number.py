"""The number of a CTA in its grid, in PTX: x counts fastest, as in a launch.

Input: the register that takes the number; the text around declares it, and x, y, z, nx and ny, all of 32 bits. Output: PTX:

    cta_number("cta")       mov.u32 x, %ctaid.x; ...; mad.lo.u32 cta, cta, nx, x;
"""

from __future__ import annotations


def cta_number(into: str) -> str:
    """Instructions that leave the number in `into`, and the grid's first two extents in nx and ny."""
    return f"""mov.u32 x, %ctaid.x;
mov.u32 y, %ctaid.y;
mov.u32 z, %ctaid.z;
mov.u32 nx, %nctaid.x;
mov.u32 ny, %nctaid.y;
mad.lo.u32 {into}, z, ny, y;
mad.lo.u32 {into}, {into}, nx, x;"""
