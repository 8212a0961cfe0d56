"""Tiles of shared buffers, which are boxes of them: one view, then one load or store."""

from __future__ import annotations

import triton.language.core as tl

from ..tlx.arguments import is_int
from ..tlx.local_mem import local_load, local_slice, local_store
from ..tlx.types import buffered_tensor


def read_tile(buffer: buffered_tensor, where: list, tile: tuple[int, ...], semantic) -> tl.tensor:
    """The value of the tile at these coordinates."""
    return local_load(_box(buffer, where, tile, semantic), _semantic=semantic)


def write_tile(buffer: buffered_tensor, tile: tl.tensor, where: list, semantic) -> None:
    """Write `tile` at these coordinates."""
    local_store(_box(buffer, where, tuple(int(extent) for extent in tile.shape), semantic), tile, _semantic=semantic)


def _box(buffer: buffered_tensor, where: list, tile: tuple[int, ...], semantic) -> buffered_tensor:
    offsets = tuple(coordinate * extent if is_int(coordinate) else semantic.mul(coordinate, extent, False)
                    for coordinate, extent in zip(where, tile))
    return local_slice(buffer, offsets, tile, _semantic=semantic)
