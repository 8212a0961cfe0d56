"""`extract_tile` and `insert_tile`: a tile of a register tensor or of a shared buffer, as functions and as methods.

Input: a tensor or buffer of a kernel's call, and the index of a tile. Output: ops that move data. For example, with `v`
of 64:

    a = tle.extract_tile(v, 1, [32])        reshape, trans, then %25, %26 = split %24, and %a = reshape %26, [32]
    v = tle.insert_tile(v, a, 0)            expand_dims, broadcast, reshape, then %v = select %in_tile, %copies, %v

The source is seen as a grid of tiles. A tile that is known at compile time is picked by halving the tensor
(`tt.split`), a tile that is known at run time by a gather; both move data through shared memory once. Inserting lays
copies of the tile side by side and selects by coordinates, for known and unknown tiles alike. Of a tensor whose extents are
no powers of two (docs/EXTENTS.md) a known tile is `cut`, and the halving is `passes.pad_tiles`'.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import triton.language.core as tl

from ...ir.extents import is_odd
from ..core import word
from ..described import described
from ..refuse import refuse
from ..tlx.arguments import is_int
from ..tlx.types import buffered_tensor
from .buffer_tiles import read_tile, write_tile


@word
def extract_tile(x, index, tile_shape: tl.constexpr = None, shape: tl.constexpr = None, _semantic=None) -> tl.tensor:
    """One tile of `x`, as a value: element [j, ..] is x[coordinate * extent + j, ..].

    args:      x     - block tensor, or a buffer in shared memory (then only the tile is read)
               index - which tile: a list or tuple with one coordinate an axis, or one number that counts the tiles row by row
                       (last axis fastest); ints and integer scalars in any mix. Out of the grid at run time is undefined.
               shape - (also called `tile_shape`) extents of a tile, ints that divide those of `x`; of an extent that is no power
                       of two, and for an int, any power of two for which the tile lies in `x`
    errors:    ValueError for anything else, and for an int outside the grid
    lowers to: tt.reshape, tt.trans, tt.split; tt.gather for a run-time index; ttg.local_load or local_gather for a buffer.
               Columns of a tensor core's sums stay in the registers in which they are
    example:   upper = tle.extract_tile(x, [0, 0], [32, 64])
    """
    if (shape is None) == (tile_shape is None):
        refuse(ValueError, "extract_tile: give the tile's shape once, as `shape` or as `tile_shape`")
    tile = _extents("extract_tile", shape if tile_shape is None else tile_shape)
    grid = _grid("extract_tile", x, tile, within=True)
    where = _coordinates("extract_tile", index, grid, _semantic)
    if isinstance(x, buffered_tensor):
        return read_tile(x, where, tile, _semantic)
    if is_odd(grid.whole) and not is_odd(tile) and all(map(is_int, where)):
        return _cut(x, grid, where, _semantic)
    if grid.shape != grid.whole:
        refuse(ValueError, f"extract_tile: tiles {list(tile)} leave a part of {list(grid.whole)}; the index must then be ints")
    if all(extent == 1 for extent in grid.counts):
        return x
    stored = _as_plain(x, _semantic)
    found = _split(stored, grid, where, _semantic) if all(map(is_int, where)) else _gather(stored, grid, where, _semantic)
    return _as_type(found, x.dtype, _semantic)


@word
def insert_tile(x, tile, index, _semantic=None):
    """`x` with one tile replaced.

    args:      x     - block tensor, which stays as it is; or a buffer in shared memory, which is written in place and returned
               tile  - block tensor of the same element type and rank; its extents divide those of `x`
               index - as in `extract_tile`
    errors:    ValueError, also for an int outside the grid of such tiles
    lowers to: tt.broadcast and arith.select; ttg.local_store or local_scatter for a buffer
    example:   x = tle.insert_tile(x, -tle.extract_tile(x, [0, 0], [32, 64]), [0, 0])
    """
    if not isinstance(tile, tl.tensor) or not tile.type.is_block():
        refuse(ValueError, f"insert_tile: `tile` must be a block tensor, got {described(tile)}")
    extents = _extents("insert_tile", tuple(tile.shape))
    grid = _grid("insert_tile", x, extents)
    if tile.dtype != x.dtype:
        refuse(ValueError, f"insert_tile: the tile holds {tile.dtype}, the target {x.dtype}; convert first")
    where = _coordinates("insert_tile", index, grid, _semantic)
    if isinstance(x, buffered_tensor):
        write_tile(x, tile, where, _semantic)
        return x
    return _select(x, tile, grid, where, _semantic)


tl.tensor.extract_tile = buffered_tensor.extract_tile = extract_tile
tl.tensor.insert_tile = buffered_tensor.insert_tile = insert_tile


@dataclass(frozen=True)
class Grid:
    """A tensor as tiles: `counts[d]` tiles of `tile[d]` elements along axis d."""

    counts: tuple[int, ...]
    tile: tuple[int, ...]
    whole: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the whole."""
        return tuple(count * extent for count, extent in zip(self.counts, self.tile))

    @property
    def apart(self) -> list[int]:
        """Extents with tile number and place in the tile as axes of their own: (G0, T0, G1, T1, ..)."""
        return [extent for pair in zip(self.counts, self.tile) for extent in pair]


def _extents(name: str, shape: Any) -> tuple[int, ...]:
    shape = (shape, ) if is_int(shape) else shape
    if not isinstance(shape, (list, tuple)) or not shape:
        refuse(ValueError, f"{name}: the tile's shape must be a list or tuple of ints, got {shape!r}")
    extents = tuple(extent.value if isinstance(extent, tl.constexpr) else extent for extent in shape)
    for extent in extents:
        if not is_int(extent) or extent <= 0:
            refuse(ValueError, f"{name}: each extent of the tile must be a positive compile-time int, got {extent!r}")
    return extents


def _grid(name: str, x: Any, tile: tuple[int, ...], within: bool = False) -> Grid:
    """The tiles of `x`; `within` a register tensor whole ones of a power of two, where an odd extent leaves a part of one."""
    if isinstance(x, buffered_tensor):
        if x.num:
            refuse(ValueError, f"{name}: the buffer is an array of {x.num}; index it first")
    elif not isinstance(x, tl.tensor) or not x.type.is_block():
        refuse(ValueError, f"{name}: the source must be a block tensor or a shared buffer, got {described(x)}")
    extents = tuple(int(extent) for extent in x.shape)
    if len(extents) != len(tile):
        refuse(ValueError, f"{name}: the tile has rank {len(tile)}, the source {list(extents)} has rank {len(extents)}")
    for axis, (extent, part) in enumerate(zip(extents, tile)):
        leaves = within and not isinstance(x, buffered_tensor) and is_odd((extent, )) and not is_odd((part, )) and part < extent
        if extent % part and not leaves:
            refuse(ValueError, f"{name}: along axis {axis} the tile's extent {part} does not divide the source's {extent}")
    return Grid(tuple(extent // part for extent, part in zip(extents, tile)), tile, extents)


def _coordinates(name: str, index: Any, grid: Grid, semantic) -> list:
    """The tile's coordinate along each axis, ints or i32 scalars."""
    counts = grid.counts
    if isinstance(index, (list, tuple)):
        if len(index) != len(counts):
            refuse(ValueError, f"{name}: index {[str(item) for item in index]} has {len(index)} coordinates, the grid has "
                               f"{len(counts)} axes")
        return [_number(name, item, count, semantic) for item, count in zip(index, counts)]
    rest, where = _number(name, index, prod(counts), semantic), []
    for count in reversed(counts):
        if is_int(rest):
            rest, coordinate = divmod(rest, count)
        else:
            coordinate, rest = semantic.mod(rest, count), semantic.floordiv(rest, count)
        where.insert(0, coordinate)
    return where


def _number(name: str, value: Any, count: int, semantic):
    if is_int(value):
        if not 0 <= value < count:
            refuse(ValueError, f"{name}: tile {value} is outside the grid, which has the numbers 0 to {count - 1} there")
        return value
    if not isinstance(value, tl.tensor) or value.type.is_block() or not value.dtype.is_int() or value.dtype.is_bool():
        refuse(ValueError, f"{name}: an index must be an int or an integer scalar, got {value!s}")
    return 0 if count == 1 else semantic.cast(value, tl.int32)


def _as_plain(x: tl.tensor, semantic) -> tl.tensor:
    """`x` in a type that data movement takes: pointers as integers, booleans as bytes."""
    if x.dtype.is_ptr():
        return semantic.cast(x, tl.int64)
    return semantic.cast(x, tl.int8) if x.dtype.is_bool() else x


def _as_type(x: tl.tensor, dtype: tl.dtype, semantic) -> tl.tensor:
    return x if x.dtype == dtype else semantic.cast(x, dtype)


def _cut(x: tl.tensor, grid: Grid, where: list[int], semantic) -> tl.tensor:
    """One op, which says which elements; powers of two are not for the words to see."""
    stored, start = _as_plain(x, semantic), tuple(coordinate * extent for coordinate, extent in zip(where, grid.tile))
    found = semantic.builder.record("cut", stored.handle, start, grid.tile).results[0]
    return _as_type(tl.tensor(found, tl.block_type(stored.dtype, list(grid.tile))), x.dtype, semantic)


def _split(x: tl.tensor, grid: Grid, where: list[int], semantic) -> tl.tensor:
    """Tile numbers as the last axis, which is then halved until one is left."""
    rank = len(grid.counts)
    apart = semantic.reshape(x, grid.apart, can_reorder=False)
    behind = semantic.permute(apart, tuple([2 * axis + 1 for axis in range(rank)] + [2 * axis for axis in range(rank)]))
    count, number = prod(grid.counts), 0
    for coordinate, extent in zip(where, grid.counts):
        number = number * extent + coordinate
    found = semantic.reshape(behind, [*grid.tile, count], can_reorder=False)
    while count > 1:
        count //= 2
        halves = semantic.split(semantic.permute(semantic.reshape(found, [*grid.tile, 2, count], can_reorder=False),
                                                 (*range(rank), rank + 1, rank)))
        found, number = halves[number // count], number % count
    return semantic.reshape(found, list(grid.tile), can_reorder=False)


def _gather(x: tl.tensor, grid: Grid, where: list, semantic) -> tl.tensor:
    """Element numbers of the tile in the flattened tensor, looked up there."""
    shape, flat, stride = grid.shape, None, 1
    for axis in reversed(range(len(shape))):
        start = semantic.mul(semantic.to_tensor(where[axis]), grid.tile[axis], False)
        places = semantic.add(_line(grid.tile[axis], axis, len(shape), semantic), start, False)
        places = semantic.mul(places, stride, False)
        flat = places if flat is None else semantic.add(flat, places, False)
        stride *= shape[axis]
    numel = prod(grid.tile)
    found = semantic.gather(semantic.reshape(x, [prod(shape)], can_reorder=False),
                            semantic.reshape(flat, [numel], can_reorder=False), 0)
    return semantic.reshape(found, list(grid.tile), can_reorder=False)


def _select(x: tl.tensor, tile: tl.tensor, grid: Grid, where: list, semantic) -> tl.tensor:
    """Copies of the tile all over the grid, taken where the coordinates are the tile's."""
    rank, copies = len(grid.counts), tile
    if all(count == 1 for count in grid.counts):
        return tile
    for axis in range(rank):
        copies = semantic.expand_dims(copies, 2 * axis)
    copies = semantic.reshape(semantic.broadcast_impl_shape(copies, grid.apart), list(grid.shape), can_reorder=False)
    inside = None
    for axis, count in enumerate(grid.counts):
        if count > 1:
            number = semantic.floordiv(_line(grid.shape[axis], axis, rank, semantic), grid.tile[axis])
            matches = semantic.equal(number, where[axis])
            inside = matches if inside is None else semantic.and_(inside, matches)
    return semantic.where(semantic.broadcast_impl_shape(inside, list(grid.shape)), copies, x)


def _line(extent: int, axis: int, rank: int, semantic) -> tl.tensor:
    """0, 1, .. extent - 1 along `axis` of a tensor of `rank` axes."""
    line = semantic.arange(0, extent)
    for other in range(rank):
        if other != axis:
            line = semantic.expand_dims(line, other)
    return line
