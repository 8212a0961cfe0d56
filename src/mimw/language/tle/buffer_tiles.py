"""Tiles of shared buffers: pointers to the tile's elements, then a load or store of nothing else.

Input: a buffer, the coordinates of a tile and its extents. Output: a `local_ptr`, and the `load` or `store` through the
pointers:

    read_tile(row, [1], (32, ), semantic)       %p = local_ptr %row, [%at], [64], pointee=fp16     with %at = 32 .. 63
                                                %tile = load %p, ..

The file exists because `tiles` cuts tiles out of registers; a tile of a buffer needs no cutting, only its own
addresses.
"""

from __future__ import annotations

import triton.language.core as tl

from ..tlx.types import buffered_tensor
from .gpu.pointers import local_ptr


def read_tile(buffer: buffered_tensor, where: list, tile: tuple[int, ...], semantic) -> tl.tensor:
    """The value of the tile at these coordinates."""
    return tl.load(_pointers(buffer, where, tile, semantic), _semantic=semantic)


def write_tile(buffer: buffered_tensor, tile: tl.tensor, where: list, semantic) -> None:
    """Write `tile` at these coordinates."""
    extents = tuple(int(extent) for extent in tile.shape)
    tl.store(_pointers(buffer, where, extents, semantic), tile, _semantic=semantic)


def _pointers(buffer: buffered_tensor, where: list, tile: tuple[int, ...], semantic) -> tl.tensor:
    indices = []
    for axis, (coordinate, extent) in enumerate(zip(where, tile)):
        line = semantic.add(semantic.arange(0, extent), semantic.mul(semantic.to_tensor(coordinate), extent, False), False)
        for other in range(len(tile)):
            if other != axis:
                line = semantic.expand_dims(line, other)
        indices.append(semantic.broadcast_impl_shape(line, list(tile)))
    return local_ptr(buffer, tuple(indices), _semantic=semantic)
