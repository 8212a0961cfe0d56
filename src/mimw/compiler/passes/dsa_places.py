"""Positions of a local memory's elements in shared memory, and reads and writes at these positions.

Input: a buffer of `tle.dsa`, or a subview of one. Output: its `Place`: the buffer behind it, and a box of that with steps; and ops
that read or write the box. For example, with %a of 50 elements, in 64:

    places.of(%a)                               Place(%a, (50, ), (0, ), (1, )): read by local_load
    places.of(subview %a [%i] [10] [2])         Place(%a, (10, ), (%i, ), (2, )): read by local_gather at %i + 2 * j
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ...ir import I32, Builder, Op, Site, Tensor, Value
from ...ir.extents import padded


@dataclass(frozen=True)
class Place:
    """The elements `offsets + j * strides` of the buffer `root` (of the old program), for each j in the box `shape`. Offsets are
    ints or i32 values of the new program."""

    root: Value
    shape: tuple[int, ...]
    offsets: tuple[Value | int, ...]
    strides: tuple[int, ...]

    @property
    def is_whole(self) -> bool:
        """True of a buffer itself."""
        return self.shape == self.root.type.shape and not any(self.offsets) and set(self.strides) <= {1}


class Places:
    """The known subviews, and accesses to the buffers behind them. Ops go to `writer`."""

    def __init__(self, writer: Builder, masked_views: bool = True):
        self.writer, self.masked_views = writer, masked_views
        self.views: dict[Value, Place] = {}

    def of(self, buffer: Value) -> Place:
        rank = len(buffer.type.shape)
        return self.views.get(buffer) or Place(buffer, buffer.type.shape, (0, ) * rank, (1, ) * rank)

    def add(self, op: Op, offsets: tuple) -> None:
        """Note a `dsa_subview`; `offsets` are of the new program."""
        around = self.of(op.buffer)
        starts = tuple(self.plus(start, self.times(offset, stride, op.site), op.site)
                       for start, offset, stride in zip(around.offsets, offsets, around.strides))
        steps = tuple(mine * theirs for mine, theirs in zip(op.strides, around.strides))
        self.views[op.result] = Place(around.root, op.sizes, starts, steps)

    # ---- numbers ----------------------------------------------------------------------------------------------------

    def times(self, number: Value | int, factor: int, site: Site) -> Value | int:
        return number * factor if isinstance(number, int) else self.writer.scaled(number, factor, site)

    def plus(self, lhs: Value | int, rhs: Value | int, site: Site) -> Value | int:
        """The sum of ints, i32 values and i32 tiles; a tile where one of them is."""
        if isinstance(lhs, int) and isinstance(rhs, int):
            return lhs + rhs
        if isinstance(lhs, int):
            lhs, rhs = rhs, lhs
        if isinstance(rhs, int):
            return self.writer.by_constant("add", lhs, rhs, site) if rhs else lhs
        if isinstance(rhs.type, Tensor) and not isinstance(lhs.type, Tensor):
            lhs, rhs = rhs, lhs
        if isinstance(lhs.type, Tensor) and not isinstance(rhs.type, Tensor):
            rhs = self.writer.emit("splat", (lhs.type, rhs), site)
        return self.writer.emit("add", (lhs, rhs), site)

    def along(self, shape: tuple[int, ...], axis: int, site: Site) -> Value:
        """An i32 tile of `shape`: the index of each element along `axis`."""
        line = self.writer.emit("make_range", (Tensor(I32, (shape[axis], )), 0, shape[axis]), site)
        for other in range(len(shape)):
            if other != axis:
                line = self.writer.emit("expand_dims", (line, other), site)
        return line if line.type.shape == shape else self.writer.emit("broadcast", (line, shape), site)

    def grid(self, shape: tuple[int, ...], site: Site) -> tuple[Value, ...]:
        return tuple(self.along(shape, axis, site) for axis in range(len(shape)))

    def leading(self, extents: tuple, shape: tuple[int, ...], room: tuple[int, ...], site: Site) -> Value | None:
        """A mask of the elements of a tile of `shape` that lie in the box `extents`, which are ints or i32 values and are cut
        to `room`; None if all elements do."""
        mask = None
        for axis, (extent, most, have) in enumerate(zip(extents, room, shape)):
            if isinstance(extent, int):
                if min(extent, most) >= have:
                    continue
                bound = self.writer.constant(min(extent, most), I32, site)
            else:
                bound = extent
                if most < have:
                    bound = self.writer.emit("minsi", (extent, self.writer.constant(most, I32, site)), site)
            bound = self.writer.emit("splat", (Tensor(I32, shape), bound), site)
            inside = self.writer.emit("icmpSLT", (self.along(shape, axis, site), bound), site)
            mask = inside if mask is None else self.writer.emit("and", (mask, inside), site)
        return mask

    def inside(self, place: Place, indices: tuple[Value, ...], site: Site) -> tuple[Value, ...]:
        """Indices into a place as indices into the buffer behind it."""
        return tuple(self.plus(self.times(index, stride, site), offset, site)
                     for index, offset, stride in zip(indices, place.offsets, place.strides))

    def positions(self, indices: tuple[Value, ...], shape: tuple[int, ...], site: Site) -> Value:
        """Row-major positions in `shape`, a flat tile."""
        total: Value | int = 0
        for axis, index in enumerate(indices):
            total = self.plus(total, self.times(index, prod(shape[axis + 1:]), site), site)
        return self.writer.reshaped(total, (prod(total.type.shape), ), site)

    # ---- accesses ---------------------------------------------------------------------------------------------------

    def read(self, place: Place, site: Site) -> Value:
        """The box, as a tile of its extents rounded up; elements beyond the box are undefined."""
        if place.is_whole:
            return self.writer.emit("local_load", (self.writer.now(place.root), None), site, layout=None)
        shape = padded(place.shape)
        return self.gather(place, shape, self.leading(place.shape, shape, place.shape, site), site)

    def write(self, place: Place, tile: Value, mask: Value | None, site: Site) -> None:
        """A tile of the box's extents rounded up into the box, where the mask is true."""
        if place.is_whole and mask is None:
            self.writer.emit("local_store", (self.writer.now(place.root), tile), site)
        elif place.is_whole and self.masked_views:
            self.writer.emit("local_store", (self.writer.now(place.root), tile, mask), site, run=1)
        else:
            beyond = self.leading(place.shape, tile.type.shape, place.shape, site)
            both = mask if beyond is None else beyond if mask is None else self.writer.emit("and", (mask, beyond), site)
            self.scatter(place, tile, both, site)

    def _flat(self, place: Place, shape: tuple[int, ...], mask: Value | None, site: Site) -> tuple[Value, Value, Value | None]:
        """The flat buffer, and the positions in it of a tile of indices of `shape`, flat; 0 where the mask is false."""
        buffer = self.writer.now(place.root)
        where = self.positions(self.inside(place, self.grid(shape, site), site), buffer.type.shape, site)
        if mask is not None:
            mask = self.writer.reshaped(mask, where.type.shape, site)
            where = self.writer.emit("select", (mask, where, self.writer.constant(0, where.type, site)), site)
        return self.writer.emit("buffer_flat", (buffer, ), site), where, mask

    def gather(self, place: Place, shape: tuple[int, ...], mask: Value | None, site: Site) -> Value:
        """The leading box `shape` of a place, element by element."""
        flat, where, mask = self._flat(place, shape, mask, site)
        args = (flat, where, 0, None) if mask is None else (flat, where, 0, None, mask)
        return self.writer.reshaped(self.writer.emit("local_gather", args, site), shape, site)

    def scatter(self, place: Place, tile: Value, mask: Value | None, site: Site) -> None:
        """A tile into the leading box of its shape, element by element."""
        flat, where, mask = self._flat(place, tile.type.shape, mask, site)
        tile = self.writer.reshaped(tile, where.type.shape, site)
        if mask is None:
            self.writer.emit("local_scatter", (flat, tile, where, 0, None), site)
        else:
            self.writer.emit("local_masked_scatter", (flat, tile, where, mask), site)

