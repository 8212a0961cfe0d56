"""What has to hold of a launch, so that an access by pointers is a box of a tensor for TMA.

Input: a box, its op, and what the host knows of scalars. Output: `Within`s and `Multiple`s, or `NoForm` for what never holds. For
example, for 16-bit elements:

    Multiple(stride_am, 8)                              strides are multiples of 16 bytes
    Within(128*pid, 0, 2^31 - 1)                        none begins in front of the tensor, where pointers read what is there
    Multiple(N, 8)          of a store alone: TMA writes 16 bytes at a time

The limits are those of `ir.tensor_map`, with what differs between TMA and pointers.
"""

from __future__ import annotations

from ...ir import Op
from ...ir.tensor_map import MOST, ROW_BYTES, STRIDE_BITS
from .address_forms import NoForm, Within
from .polynomials import Poly
from .scalar_ranges import Ranges
from .tensor_boxes import UNBOUNDED, Box, Multiple


def conditions_of(ranges: Ranges, box: Box, op: Op, begun: set[int]) -> list[Within | Multiple]:
    """All that has to hold; `begun` are the axes of the tile whose masks have a lower bound. Raises `NoForm`."""
    return _Conditions(ranges, box, op, begun).all()


class _Conditions:
    def __init__(self, ranges: Ranges, box: Box, op: Op, begun: set[int]):
        self.ranges, self.box, self.site, self.writes = ranges, box, op.site, op.row.stores
        self.begun = begun
        self.granule = ROW_BYTES // box.element.bytes           # elements in 16 bytes

    def all(self) -> list[Within | Multiple]:
        return [*self._shape(), *self._strides(), *self._offsets(), *self._row(), *(self._written() if self.writes else ())]

    def _within(self, poly: Poly, least: int, most: int, what: str) -> list[Within]:
        number = poly.constant
        if number is None:
            return [Within(poly, least, most, what, self.site)]
        if not least <= number <= most:
            raise NoForm(what.format(poly=number), self.site)
        return []

    def _multiple(self, poly: Poly, what: str) -> list[Multiple]:
        if all(factor % self.granule == 0 for factor in poly.terms.values()):
            return []
        if poly.constant is not None:
            raise NoForm(what.format(poly=poly), self.site)
        return [Multiple(poly, self.granule, what, self.site)]

    def _shape(self) -> list[Within | Multiple]:
        return [one for extent in self.box.shape for one in self._within(extent, 1, MOST, "the extent {poly} is not 1 to 2^31 - 1")]

    def _strides(self) -> list[Within | Multiple]:
        most = ((1 << STRIDE_BITS) - 1) // self.box.element.bytes
        found: list[Within | Multiple] = []
        for stride in self.box.strides[:-1]:
            found += self._within(stride, 1, most, "the stride {poly} is not positive, or 2^40 bytes or more")
            found += self._multiple(stride, "16 bytes do not divide the stride {poly}")
        return found

    def _offsets(self) -> list[Within]:
        found = []
        for axis, offset, block in zip(self.box.order, self.box.offsets, self.box.block):
            least = -(1 << 31) if axis in self.begun and not self.writes else 0
            found += self._within(offset, least, UNBOUNDED - block, "a block may begin at {poly}, " + (
                "which is more than 32 bits hold" if least else "in front of the tensor, or 2^31 elements behind it"))
        return found

    def _row(self) -> list[Multiple]:
        """A block begins in its row at a multiple of 16 bytes: what programs and trips multiply has to be one."""
        found: list[Multiple] = []
        for monomial, factor in self.box.offsets[-1].terms.items():
            known = Poly({tuple(symbol for symbol in monomial if self.ranges.exact(symbol)): factor})
            if known.constant is not None and factor % self.granule:
                raise NoForm(f"its block begins anywhere in a row ({self.ranges.shown(self.box.offsets[-1])}), and TMA begins at "
                             "multiples of 16 bytes", self.site)
            found += self._multiple(known, "a block begins in its row at multiples of {poly}, which 16 bytes do not divide")
        return found

    def _written(self) -> list[Within | Multiple]:
        """TMA writes 16 bytes at a time, and rows in any order."""
        inner, found = self.box.shape[-1], []
        if self.box.bounds[-1] is not None:
            found += self._multiple(inner, "rows of {poly} elements end within 16 bytes, of which TMA writes all")
        for stride in self.box.strides[:-1]:
            beyond = stride - (inner if self.box.bounds[-1] is not None else self.box.block[-1])
            found += self._within(beyond, 0, 1 << STRIDE_BITS, "rows that are written overlap: {poly} is negative")
        return found
