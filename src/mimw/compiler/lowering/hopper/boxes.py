"""Boxes of TMA: the part of a descriptor's block that one instruction moves.

Triton splits a block into boxes of at most 256 elements a dimension, and of as many consecutive bytes as the swizzle is wide.
Input: a descriptor's type and layout. Output: the extents of a box, where each box begins, and where it lies in a buffer:

    box(Descriptor(BF16, (64, 128)), NvmmaShared(128, 16, 2))        [64, 64]: two boxes side by side
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod

from ....ir import Descriptor
from ....ir.layouts import NvmmaShared

_MOST = 256  # elements of a box in one dimension: PTX ISA, "Tensors", bounding box


def box(type_: Descriptor, layout: NvmmaShared) -> list[int]:
    """Extents of one TMA instruction: at most 256 a dimension, and one swizzle width of the innermost."""
    extents = [min(extent, _MOST) for extent in type_.shape]
    if layout.swizzle:
        extents[-1] = 8 * layout.swizzle // type_.element.bits // counted(layout)
    return extents


def counted(layout: NvmmaShared) -> int:
    """The number of elements of the innermost dimension that TMA counts for one of the descriptor's: two for padded fp4,
    which is packed in bytes (PTX ISA, ".b4x16_p64"), else one."""
    return 2 if layout.fp4_padded else 1


def coordinates(layout: NvmmaShared, offsets: list[str], start: tuple[int, ...]) -> list[str]:
    """Lines that put the place of a box into the registers c0, c1, .., of a block at `offsets` in which it begins at `start`."""
    last = f"c{len(start) - 1}"
    return [*(f"add.s32 c{dim}, {offset}, {first};" for dim, (offset, first) in enumerate(zip(offsets, start))),
            *(f"add.s32 {last}, {last}, {last};" for _ in range(counted(layout) - 1))]


def corners(type_: Descriptor, layout: NvmmaShared) -> Iterator[tuple[int, ...]]:
    """The first element of each box of a block, by dimension."""
    return product(*(range(0, extent, step) for extent, step in zip(type_.shape, box(type_, layout))))


def boxes(type_: Descriptor, layout: NvmmaShared, allocated: tuple[int, ...]) -> Iterator[tuple[int, tuple[int, ...]]]:
    """(byte in the buffer, first element) of each box of a block.

    args:      type_      of the descriptor
               layout     its NV-MMA layout
               allocated  shape of the tile that the buffer is a view of: whole swizzle atoms of a bigger one stand further apart
    """
    shape, size = type_.shape, type_.element.bytes
    row = layout.swizzle or shape[-1] * size
    rows = prod(allocated[:-1])
    extents = (1, ) * (len(shape) - len(allocated)) + allocated
    for start in corners(type_, layout):
        line = 0
        for dim, first in enumerate(start[:-1]):
            line = line * extents[dim] + first
        inner = start[-1] * size * counted(layout)      # padding takes as much as it pads
        yield inner // row * rows * row + line * row + inner % row, start
