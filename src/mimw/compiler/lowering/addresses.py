"""Byte addresses in flat buffers: XOR-linear maps of the row-major numbers of the elements.

Input: a buffer whose layout is solved. Output: for each bit of an element's number, the bytes by which it moves the element; these
are XORed. For bf16[8, 64] in the 128-byte swizzle:

    places(emitter, buffer, op)        [2, 4, 8, 16, 32, 64, 128 ^ 16, 256 ^ 32, 512 ^ 64]
"""

from __future__ import annotations

from dataclasses import replace

from ...errors import NotYet
from ...ir import Op, Value
from ...ir.byte_maps import byte_map
from ...ir.extents import padded
from ...ir.layouts import NvmmaShared, SwizzledShared
from .emitter import Emitter


def places(emitter: Emitter, source: Value, op: Op) -> list[int]:
    """The bytes by which each bit of an element's row-major number in a buffer or array moves the element; these are XORed."""
    placement, type_ = emitter.placed[source], source.type
    whole = placement.allocated == type_.shape
    if placement.place is not None or not whole or not isinstance(placement.layout, (NvmmaShared, SwizzledShared)):
        raise NotYet(f"not yet: such pointers into {type_} in {placement.layout}", op.site,
                     hint="take pointers into one whole buffer, and leave its layout to the compiler")
    type_ = replace(type_, count=padded((type_.count, ))[0] if type_.count else 0)
    return list(byte_map(placement.layout, type_)[(type_.element.bytes - 1).bit_length():])


def moves(images: list[int]) -> dict[int, int]:
    """The map as shifts: {by how many bits to the left: which bits of the number}; the results are XORed."""
    found: dict[int, int] = {}
    for bit, image in enumerate(images):
        for place in range(image.bit_length()):
            if image >> place & 1:
                found[place - bit] = found.get(place - bit, 0) | 1 << bit
    return found


def inverse(images: list[int]) -> list[int]:
    """The inverse of an XOR-linear map, both as the images of 1, 2, 4, .."""
    rows = [(image, 1 << bit) for bit, image in enumerate(images)]
    for bit in range(len(images)):
        pivot = next(row for row in range(bit, len(rows)) if rows[row][0] >> bit & 1)
        rows[bit], rows[pivot] = rows[pivot], rows[bit]
        rows = [(image ^ rows[bit][0], number ^ rows[bit][1]) if row != bit and image >> bit & 1 else (image, number)
                for row, (image, number) in enumerate(rows)]
    return [number for _, number in rows]
