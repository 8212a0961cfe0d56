"""Which byte of shared memory holds which element of a buffer, from the text of its layout in TTGIR.

Input: the text of a layout, the shape of the whole buffer (one slot of an array; of a subslice the buffer that it is of), the bits
of an element. Output: a `BufferMap`, by how many bytes each bit of a coordinate moves an element. For example:

    found = buffer_map("#ttg.swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 8, order = [1, 0]}>", (64, 64), 16)
    found.steps[0][:3]                (144, 288, 576): a row is 128 bytes, and its pieces of 16 bytes are XORed with its number
    found.offsets()[5, 63]            the byte at which element (5, 63) begins

Steps are XORed. The unused bytes of padded memory come on top: `gaps`, after so many bytes so many unused ones. The maps are the
inverse of Triton's `toLinearLayout`, which tests compare kind by kind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ...ir.bases import Basis
from ...ir.byte_maps import byte_offset
from ...ir.layouts import NvmmaShared, SharedLayout, SwizzledShared
from ..constraints.bank_counts import Gaps, position_numbers
from .layout_text import LayoutProblem, Spelled, of_known_fields, read_layout
from .layouts import part_shape, tiled_blocks

_BYTE = 8
_BY_BASES = ("padded_shared", "shared_linear")
_ONE_SLOT = "give the shape of one slot"
Steps = tuple[tuple[int, ...], ...]     # a dimension, a bit of the coordinate along it


@dataclass(frozen=True)
class BufferMap:
    """The bytes, and the number of the CTA of the cluster, that each bit of each coordinate adds; bytes of an element."""

    steps: Steps
    blocks: Steps
    shape: tuple[int, ...]
    element: int
    gaps: Gaps = ()

    def offset(self, position: Sequence[int]) -> int:
        """The byte of an element, without the gaps before it."""
        return _xored(self.steps, position)

    def block(self, position: Sequence[int]) -> int:
        """The CTA whose shared memory holds an element; the first of them if several do."""
        return _xored(self.blocks, position)

    def offsets(self) -> np.ndarray:
        """The byte at which each element begins in the shared memory of its CTA, an int64 array of the buffer's shape."""
        found = np.zeros((1, ) * len(self.shape), np.int64)
        for axis, steps in enumerate(self.steps):
            along = np.zeros(1, np.int64)
            for step in steps:
                along = np.concatenate((along, along ^ step))
            found = found ^ along.reshape([-1 if dim == axis else 1 for dim in range(len(self.shape))])
        return found + sum(found // interval * unused for interval, unused in self.gaps)


@lru_cache(maxsize=1024)
def buffer_map(text: str, shape: tuple[int, ...], bits: int) -> BufferMap:
    """The bytes of the elements of a buffer of that shape; LayoutProblem for a text that is no layout of such a buffer."""
    if bits < _BYTE or bits % _BYTE:
        raise LayoutProblem(f"elements of {bits} bits share bytes in shared memory; Triton stores booleans as 8 bits")
    if any(extent < 1 or extent & (extent - 1) for extent in shape):
        raise LayoutProblem(f"a buffer of {list(shape)} has an extent that is no power of two: {_ONE_SLOT}")
    layout, element = read_layout(text), bits // _BYTE
    with of_known_fields(text):
        return _by_bases(layout, shape, element) if layout.kind in _BY_BASES else _by_rows(layout, shape, element)


def _by_rows(layout: Spelled, shape: tuple[int, ...], element: int) -> BufferMap:
    """Memory of rows, swizzled or not."""
    clusters = tiled_blocks(layout, len(shape))
    part = part_shape(clusters, shape)
    inside = _rows(layout, part, element)
    steps, blocks = [], []
    for axis, extent in enumerate(shape):
        bits_of = [1 << bit for bit in range(extent.bit_length() - 1)]
        steps.append(tuple(inside(_along(axis, step, len(shape))) if step < part[axis] else 0 for step in bits_of))
        blocks.append(tuple(_owner(clusters, axis, step // part[axis]) for step in bits_of))
    return BufferMap(tuple(steps), tuple(blocks), shape, element)


def _rows(layout: Spelled, part: tuple[int, ...], element: int) -> Callable[[Basis], int]:
    """The byte of an element in a CTA's part of a buffer."""
    ours: SharedLayout
    if layout.kind == "nvmma_shared":
        if layout["elementBitWidth"] != element * _BYTE:
            raise LayoutProblem(f"elementBitWidth = {layout['elementBitWidth']} of #ttg.nvmma_shared, but {element * _BYTE} bits")
        if layout.get("fp4Padded", False):
            raise LayoutProblem("fp4Padded: only TMA and the tensor core touch such a buffer, no thread does; not followed here")
        ours = NvmmaShared(layout["swizzlingByteWidth"], element * _BYTE, len(part), layout["transposed"])
    elif layout.kind == "swizzled_shared":
        order = tuple(layout["order"])
        if sorted(order) != list(range(len(part))):
            raise LayoutProblem(f"order = {list(order)} of #ttg.{layout.kind} is none of a buffer of rank {len(part)}: {_ONE_SLOT}")
        ours = SwizzledShared(layout["vec"], layout["perPhase"], layout["maxPhase"], order)
    else:
        raise LayoutProblem(f"#ttg.{layout.kind} is no layout in shared memory that is followed here")

    def byte(position: Basis) -> int:
        number = 0
        for extent, coordinate in zip(part, position):
            number = number * extent + coordinate
        return byte_offset(ours, part, element, number * element)

    return byte


def _by_bases(layout: Spelled, shape: tuple[int, ...], element: int) -> BufferMap:
    """Memory whose text names the coordinate of each bit of an offset, or an order of the dimensions."""
    if "order" in layout.fields:
        clusters = tiled_blocks(layout, len(shape))
        part = part_shape(clusters, shape)
        offsets = [_along(axis, 1 << bit, len(shape))
                   for axis in layout["order"] for bit in range(part[axis].bit_length() - 1)]
        blocks = [tuple(step * extent for step, extent in zip(basis, part)) for basis in clusters]
    else:
        offsets, blocks = ([tuple(basis) for basis in bases] for bases in (layout["offset"], layout.get("block", ())))
    if any(len(basis) != len(shape) for basis in (*offsets, *blocks)):
        raise LayoutProblem(f"the bases of #ttg.{layout.kind} are none of a buffer of rank {len(shape)}: {_ONE_SLOT}")
    numbers = position_numbers(tuple(offsets + blocks), shape)
    if numbers is None:
        raise LayoutProblem(f"#ttg.{layout.kind} has no place for some element of a buffer of {list(shape)}: it is another one's")
    low = (1 << len(offsets)) - 1
    found = [[numbers[axis, bit] for bit in range(extent.bit_length() - 1)] for axis, extent in enumerate(shape)]
    return BufferMap(tuple(tuple((number & low) * element for number in along) for along in found),
                     tuple(tuple(number >> len(offsets) for number in along) for along in found), shape, element,
                     tuple((interval * element, unused * element) for interval, unused in layout.pairs))


def _along(axis: int, step: int, rank: int) -> Basis:
    return tuple(step if dim == axis else 0 for dim in range(rank))


def _owner(clusters: Sequence[Basis], axis: int, part: int) -> int:
    """The number of the CTA to which so many parts along a dimension lead, one bit of them."""
    return next((1 << bit for bit, basis in enumerate(clusters) if part and basis[axis] == part), 0)


def _xored(steps: Steps, position: Sequence[int]) -> int:
    found = 0
    for along, coordinate in zip(steps, position, strict=True):
        for bit, step in enumerate(along):
            found ^= step if coordinate >> bit & 1 else 0
    return found
