"""The layout of a tile that is cut into pieces, or joined from them: each half of each cut in registers of its own.

Input: a `Cut`, and the layout that a tile has. Output: whether a cut moves nothing; a layout for which that holds, in which a
thread has up to 16 bytes of a row. For example, of 176 columns in stripes of 16, and of 176 rows by 16:

    fp16[64, 256] in wgmma(m64n256k16)      free: columns 16, 32, 64, 128 are registers
    fp16[256, 64]                           rows 16, 32, 64, 128 as registers, 8 columns a thread
"""

from __future__ import annotations

from math import prod

from ...ir.bases import Bases
from ...ir.layouts import Linear, RegisterLayout
from ...ir.linear import linear_of
from ...ir.pieces import Cut

_WIDEST = 16    # bytes: PTX ISA, ld.shared.v4.b32


def is_cut_for_free(cut: Cut, layout: RegisterLayout) -> bool:
    """True if each step of the cut is a register of its own, and no other bit steps as far."""
    have = linear_of(layout, cut.shape)
    if have is None:
        return False
    others = [basis for basis in (*have.registers, *have.lanes, *have.warps) if basis not in cut.steps]
    return set(cut.steps) <= set(have.registers) and all(step < most for basis in others for step, most in zip(basis, cut.piece))


def layout_for(cut: Cut, size: int, warps: int, warp_size: int) -> Linear:
    """A layout that is cut for free, of elements of `size` bytes."""
    threads = warps * warp_size
    each = max(1, min(_WIDEST // size, cut.piece[1], prod(cut.piece) // threads))
    built = Bases(2)
    built.along("registers", 1, each)
    for kind, count in (("lanes", warp_size), ("warps", warps)):
        for dim, most in ((1, cut.piece[1]), (0, cut.piece[0])):
            extent = min(count, most // built.covered[dim])
            built.along(kind, dim, extent)
            count //= extent
        getattr(built, kind).extend([(0, 0)] * (count.bit_length() - 1))
    return built.fitted(cut.shape)
