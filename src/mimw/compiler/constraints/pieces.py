"""The layout of a tile that is cut into pieces, or joined from them: each half of each cut in registers of its own.

Input: a `Cut`, the layout that a tile has. Output: that layout where a cut moves nothing, else one in which a thread has up to 16
bytes of a row. For example, of 176 columns in stripes of 16, and of 176 rows by 16:

    fp16[64, 256] in wgmma(m64n256k16)      as it is: columns 16, 32, 64, 128 are registers
    fp16[256, 64] in blocked(..)            rows 16, 32, 64, 128 as registers, 8 columns a thread
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ...ir.bases import Bases
from ...ir.core import Op
from ...ir.layouts import Linear, RegisterLayout
from ...ir.linear import linear_of

_WIDEST = 16    # bytes: PTX ISA, ld.shared.v4.b32


@dataclass(frozen=True)
class Cut:
    """A tile of `rows` x `columns` of the author's, held by a tile of `shape`, in pieces of the extents `piece`."""

    rows: int
    columns: int
    shape: tuple[int, int]
    piece: tuple[int, int]

    @property
    def steps(self) -> tuple[tuple[int, int], ...]:
        """The steps from one half of a cut to the other."""
        return tuple(tuple(step if axis == dim else 0 for axis in (0, 1)) for dim in (0, 1)
                     for step in _powers(self.piece[dim], self.shape[dim]))


def cut_of(op: Op, shape: tuple[int, int]) -> Cut:
    """The cut of an access with the attribute `pieces`, by a tile of that shape."""
    rows, columns, _ = op.attrs["pieces"]
    return Cut(rows, columns, shape, op.buffer.type.shape)


def layout_for(cut: Cut, layout: RegisterLayout, size: int, warps: int, warp_size: int) -> RegisterLayout:
    """`layout`, which the tile has, if the steps of the cut are registers in it, else a layout for elements of `size` bytes."""
    have = linear_of(layout, cut.shape)
    if have is not None and _apart(have, cut):
        return layout
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


def part_of(linear: Linear, shape: tuple[int, int]) -> Linear:
    """The layout of a half, or a part of a half, of a tile in which cuts move nothing."""
    registers = tuple(basis for basis in linear.registers if all(step < extent for step, extent in zip(basis, shape)))
    return Linear(registers, linear.lanes, linear.warps, shape)


def _apart(linear: Linear, cut: Cut) -> bool:
    """True if each step is a register of its own, and no other bit steps as far."""
    others = [basis for basis in (*linear.registers, *linear.lanes, *linear.warps) if basis not in cut.steps]
    return set(cut.steps) <= set(linear.registers) and all(step < most for basis in others for step, most in zip(basis, cut.piece))


def _powers(first: int, end: int) -> tuple[int, ...]:
    return tuple(1 << bit for bit in range(first.bit_length() - 1, end.bit_length() - 1))
