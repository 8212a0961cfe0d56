"""Addresses of a tile's bytes under a layout, to see if two types of one piece of memory mean the same bytes.

Input: a buffer type and a layout. Output: the place of each byte, as a map of bits. For example, of fp16[64, 64] and of
i32[64, 32]:

    both unswizzled: byte 2 of a row lies at 2 in either      swizzled 128 bytes wide: the XOR is the same, so they agree

Tiles have power-of-two extents and layouts are XOR-linear, so the images of the bytes numbered 1, 2, 4, ... (in
row-major order) say everything; so do, the other way round, the elements that lie at the offsets 1, 2, 4, ...
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from .layouts import LinearShared, NvmmaShared, PaddedShared, SharedLayout, SwizzledShared
from .types import Buffer

_AUTHORS = (LinearShared, PaddedShared)


def agree(one: SharedLayout, one_type: Buffer, other: SharedLayout, other_type: Buffer) -> bool:
    """True if a byte of `one_type` lies where the byte of the same number of `other_type` lies, as far as both reach. Of padded and
    linear layouts, which an author makes, that is only known for as many elements of one size."""
    if isinstance(one, _AUTHORS) or isinstance(other, _AUTHORS):
        if (prod(one_type.shape), one_type.element.bytes) != (prod(other_type.shape), other_type.element.bytes):
            return False
        ends = (one, one_type), (other, other_type)
        pairs = {layout.pairs if isinstance(layout, PaddedShared) else () for layout, _ in ends}
        orders = {element_order(layout, type_.shape, type_.element.bytes) for layout, type_ in ends}
        return len(pairs) == len(orders) == 1 and None not in orders
    return all(a == b for a, b in zip(byte_map(one, one_type), byte_map(other, other_type)))


def element_order(layout: SharedLayout, shape: Sequence[int], element: int) -> tuple[int, ...] | None:
    """The row-major number of the element of a tile that lies at each of the offsets 1, 2, 4, .. elements, padding aside; None if
    the layout is one of other tiles."""
    if layout.rank != len(shape):
        return None
    if isinstance(layout, _AUTHORS):
        return tuple(_number(basis, shape) for basis in layout.bases)
    return inverse([byte_offset(layout, tuple(shape), element, element << bit) // element
                     for bit in range(prod(shape).bit_length() - 1)])


def reshaped(layout: SharedLayout, shape: Sequence[int], element: int, wanted: Sequence[int]) -> SharedLayout | None:
    """The layout of a tile of shape `wanted` that has element number n in row-major order where `layout` has it in a tile of as
    many elements; None if there is none."""
    order = element_order(layout, shape, element)
    if order is None or prod(shape) != prod(wanted):
        return None
    bases = tuple(_position(number, wanted) for number in order)
    if isinstance(layout, PaddedShared):
        return replace(layout, bases=bases, shape=tuple(wanted))
    return replace(layout, bases=bases) if isinstance(layout, LinearShared) else LinearShared(bases)


def _number(position: Sequence[int], shape: Sequence[int]) -> int:
    number = 0
    for coordinate, extent in zip(position, shape):
        number = number * extent + coordinate
    return number


def _position(number: int, shape: Sequence[int]) -> tuple[int, ...]:
    position = []
    for extent in reversed(shape):
        number, coordinate = divmod(number, extent)
        position.append(coordinate)
    return tuple(reversed(position))


def inverse(images: list[int]) -> tuple[int, ...]:
    """The images of 1, 2, 4, .. under the inverse of a XOR-linear map, of which those are given."""
    rows = [(image, 1 << bit) for bit, image in enumerate(images)]
    for bit in range(len(rows)):
        pivot = next(number for number in range(bit, len(rows)) if rows[number][0] >> bit & 1)
        rows[bit], rows[pivot] = rows[pivot], rows[bit]
        image, source = rows[bit]
        rows = [(one ^ image, two ^ source) if number != bit and one >> bit & 1 else (one, two)
                for number, (one, two) in enumerate(rows)]
    return tuple(source for _, source in rows)


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
