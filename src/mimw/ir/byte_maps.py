"""Addresses of a tile's bytes under a layout, to see if two types of one piece of memory mean the same bytes.

Input: a buffer type and a layout. Output: the place of each byte, as a map of bits. For example, of fp16[64, 64] and of
i32[64, 32]:

    both unswizzled: byte 2 of a row lies at 2 in either      swizzled 128 bytes wide: the XOR is the same, so they agree

Tiles have power-of-two extents and layouts are XOR-linear, so the images of the bytes numbered 1, 2, 4, ... (in
row-major order) say everything.
"""

from __future__ import annotations

from math import prod

from .layouts import LinearShared, NvmmaShared, PaddedShared, SharedLayout, SwizzledShared
from .types import Buffer

_AUTHORS = (LinearShared, PaddedShared)


def agree(one: SharedLayout, one_type: Buffer, other: SharedLayout, other_type: Buffer) -> bool:
    """True if a byte of `one_type` lies where the byte of the same number of `other_type` lies, as far as both reach. Padded and
    linear layouts, which only an author makes, agree with themselves."""
    if isinstance(one, _AUTHORS) or isinstance(other, _AUTHORS):
        return one == other and (one_type.shape, one_type.element.bytes) == (other_type.shape, other_type.element.bytes)
    return all(a == b for a, b in zip(byte_map(one, one_type), byte_map(other, other_type)))


def byte_map(layout: SharedLayout, type_: Buffer) -> tuple[int, ...]:
    """The offset that each bit of a byte's row-major number in the tile (in the whole array, if it is one) adds."""
    element, shape = type_.element.bytes, type_.shape
    total = element * prod(shape) * max(1, type_.count)
    return tuple(byte_offset(layout, shape, element, 1 << bit) for bit in range((total - 1).bit_length()))


def byte_offset(layout: SharedLayout, shape: tuple[int, ...], element: int, number: int) -> int:
    """The offset of the byte with that number. Dimensions that the layout does not have lie one after the other."""
    rank = layout.rank
    if rank > len(shape):
        return number
    tile = shape[len(shape) - rank:]
    block, inside = divmod(number, element * prod(tile))
    index, byte = divmod(inside, element)
    position = []
    for extent in reversed(tile):
        index, coordinate = divmod(index, extent)
        position.insert(0, coordinate)
    offset = _nvmma if isinstance(layout, NvmmaShared) else _swizzled
    return block * element * prod(tile) + offset(layout, tile, tuple(position), element) + byte


def _swizzled(layout: SwizzledShared, shape: tuple[int, ...], position: tuple[int, ...], element: int) -> int:
    """Rows along `order[0]`; in row r its vectors are XORed with the phase (r // per_phase) % max_phase, as far as the row goes."""
    fastest, *slower = layout.order
    column, row = position[fastest], position[slower[0]] if slower else 0
    column ^= (row // layout.per_phase) % layout.max_phase * layout.vector % shape[fastest]
    offset, step = column, shape[fastest]
    for dim in slower:
        offset += position[dim] * step
        step *= shape[dim]
    return offset * element


def _nvmma(layout: NvmmaShared, shape: tuple[int, ...], position: tuple[int, ...], element: int) -> int:
    """Columns as wide as the swizzle (a whole row without), one after the other; in each the rows, whose 16-byte chunks are
    XORed with the row's number (PTX ISA, shared memory matrix layout)."""
    if layout.transposed:
        shape, position = (*shape[1:], shape[0]), (*position[1:], position[0])
    row, rows = 0, prod(shape[:-1])
    for extent, coordinate in zip(shape[:-1], position[:-1]):
        row = row * extent + coordinate
    width = layout.swizzle or shape[-1] * element
    column, byte = divmod(position[-1] * element, width)
    if layout.swizzle:
        byte ^= row // (128 // width) % (width // 16) * 16
    return (column * rows + row) * width + byte
