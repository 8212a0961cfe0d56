"""Addresses of a block of a tensor, from the parts of its descriptor: pointers, and a mask of what lies in the tensor.

Input: the parts of a descriptor, and where a block begins. Output: a `Box`, whose ops stand where the builder stands:

    box = Box(builder, parts, (%row, %column), (64, 64), site)
    box.inside        an i1: the whole block lies in the tensor; of picked rows their columns do, and what is outside reads 0
    box.pointers()    *fp16[64, 64]: base + (row * stride + column), and on that i * stride + j
    box.mask()        i1[64, 64]: 0 <= row + i < extent 0, 0 <= column + j < extent 1

What differs from block to block is one scalar, and what a thread adds to it stays the same in a loop. Of rows that a tile picks
(`rows`) the numbers take the place of row + i. All arithmetic of addresses is in 64 bits, so no tensor is too large for it.
"""

from __future__ import annotations

from functools import reduce

from ...ir import I1, I32, I64, Builder, Pointer, Site, Tensor, Value, like
from .descriptor_parts import Parts

_MOST = (1 << 31) - 1


class Box:
    """`shape` has the extents of the tile that is copied, the last ones of the block's; the leading ones are 1."""

    def __init__(self, builder: Builder, parts: Parts, offsets: tuple[Value, ...], shape: tuple[int, ...], site: Site,
                 rows: Value | None = None):
        self.builder, self.parts, self.shape, self.site, self.rows = builder, parts, shape, site, rows
        self.offsets = tuple(builder.cast_i32(offset, site) for offset in offsets)
        self.extents = tuple(map(self._extent, parts.extents))
        self.lead = len(self.extents) - len(shape)      # dimensions in which the block has one element
        block = (*(1, ) * self.lead, *shape)
        tests = []
        for axis, (extent, size) in enumerate(zip(self.extents, block)):
            if rows is None or axis:
                offset = self._offset(axis)
                tests += [self._emit("icmpSGE", offset, self._number(0)),
                          self._emit("icmpSLE", offset, self._emit("sub", extent, self._number(size)))]
        if rows is not None and parts.nan is not False:
            tests.append(self._emit("xor", self._nan(), builder.constant(True, I1, site)))
        self.inside = self._all(tests)

    # ---- what is read and written -----------------------------------------------------------------------------------

    def pointers(self) -> Value:
        """A tile of pointers to the block's elements."""
        steps, element = (*self.parts.strides, None), self.parts.base.type.pointee
        start = None
        for axis in range(len(self.extents)):
            if self.rows is None or axis:
                moved = self._wide(self._offset(axis))
                moved = moved if steps[axis] is None else self._emit("mul", moved, self._wide(steps[axis]))
                start = moved if start is None else self._emit("add", start, moved)
        first = self._emit("addptr", self.parts.base, start)
        tile = self.builder.emit("splat", (Tensor(Pointer(element), self.shape), first), self.site)
        for axis in range(self.lead, len(self.extents)):
            distance = self._wide(self._along(axis - self.lead))
            if steps[axis] is not None:
                step = self.builder.emit("splat", (distance.type, self._wide(steps[axis])), self.site)
                distance = self._emit("mul", distance, step)
            tile = self._emit("addptr", tile, self._spread(distance))
        return tile

    def mask(self) -> Value:
        """An i1 tile: the elements that lie in the tensor."""
        tests = []
        for axis in range(self.lead, len(self.extents)):
            index = self._along(axis - self.lead)
            if self.rows is None or axis:
                index = self._emit("add", index, self.builder.emit("splat", (index.type, self._offset(axis)), self.site))
            bounds = (self.builder.constant(0, index.type, self.site),
                      self.builder.emit("splat", (index.type, self.extents[axis]), self.site))
            tests.append(self._spread(self._emit("and", self._emit("icmpSGE", index, bounds[0]),
                                                 self._emit("icmpSLT", index, bounds[1]))))
        for axis in range(self.lead):
            offset = self._offset(axis)
            one = self._emit("and", self._emit("icmpSGE", offset, self._number(0)),
                             self._emit("icmpSLT", offset, self.extents[axis]))
            tests.append(self.builder.emit("splat", (Tensor(I1, self.shape), one), self.site))
        return self._all(tests)

    def row_mask(self) -> Value | None:
        """An i1 tile: the elements of picked rows that there are. None of a block that lies inside."""
        if self.rows is None:
            return None
        zero = self.builder.constant(0, self.rows.type, self.site)
        end = self.builder.emit("splat", (self.rows.type, self.extents[0]), self.site)
        there = self._emit("and", self._emit("icmpSGE", self.rows, zero), self._emit("icmpSLT", self.rows, end))
        return self._spread(self.builder.emit("expand_dims", (there, 1), self.site))

    def padding(self) -> Value:
        """A tile of what is read outside of the tensor. TMA pads no elements of 8 bits with NaN."""
        tile = Tensor(self.parts.base.type.pointee, self.shape)
        zero = self.builder.constant(0, tile, self.site)
        if self.parts.nan is False or not tile.element.is_float or tile.element.bits == 8:
            return zero
        nan = self.builder.constant(float("nan"), tile, self.site)
        if self.parts.nan is True:
            return nan
        which = self.builder.emit("splat", (Tensor(I1, self.shape), self.parts.nan), self.site)
        return self.builder.emit("select", (which, nan, zero), self.site)

    # ---- numbers ----------------------------------------------------------------------------------------------------

    def _extent(self, extent: Value) -> Value:
        """An extent as an i32, cut to the largest one: no offset is larger."""
        if extent.type == I64:
            extent = self.builder.emit("minsi", (extent, self.builder.constant(_MOST, I64, self.site)), self.site)
        return self.builder.cast_i32(extent, self.site)

    def _offset(self, axis: int) -> Value:
        return self.offsets[axis if self.rows is None else axis - 1]

    def _along(self, axis: int) -> Value:
        """An i32 tile with the extent of that axis and ones: the index of each element, or the number of its row."""
        line = self.rows if self.rows is not None and axis == 0 else self.builder.emit(
            "make_range", (Tensor(I32, (self.shape[axis], )), 0, self.shape[axis]), self.site)
        for other in range(len(self.shape)):
            if other != axis:
                line = self.builder.emit("expand_dims", (line, other), self.site)
        return line

    def _spread(self, tile: Value) -> Value:
        return tile if tile.type.shape == self.shape else self.builder.emit("broadcast", (tile, self.shape), self.site)

    def _wide(self, value: Value) -> Value:
        wide = like(value.type, I64)
        return value if value.type == wide else self.builder.emit("int_cast", (value, wide, True), self.site)

    def _nan(self) -> Value:
        nan = self.parts.nan
        return nan if isinstance(nan, Value) else self.builder.constant(nan, I1, self.site)

    def _number(self, number: int) -> Value:
        return self.builder.constant(number, I32, self.site)

    def _emit(self, name: str, lhs: Value, rhs: Value) -> Value:
        return self.builder.emit(name, (lhs, rhs), self.site)

    def _all(self, tests: list[Value]) -> Value:
        return reduce(lambda left, right: self._emit("and", left, right), tests)
