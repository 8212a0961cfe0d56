"""Tensor memory of one CTA: lanes of columns of 32 bits, and buffers as views of some of them.

Input: the number of columns that a kernel takes, and the places of its arrays. Output: views, as those of shared memory. For
example:

    TensorMemory.of_columns(512).array("acc", fp32[128, 128] x 2, place, site).part(1, "[1]")      columns 128 to 255

Row r of a buffer is lane r here, for buffers of 64 rows as well, which the hardware keeps in half the lanes of each warp:
buffers of 64 and of 128 rows that share columns hold nothing of each other that could be meant (PTX ISA, tcgen05.mma, data path
layouts). In kernels of pairs of CTAs buffers of 64 rows have their right halves in lanes of their own; here they lie in a plane of
twice the columns, `halved`, so that rows stay rows. A table of scales has bytes of its own per row and column; the hardware packs
32 rows and 4 columns of it into one column of lanes.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from ...ir.tensor_memory import COLUMN_BYTES, lying
from ..machine.tasks import InFlight
from .tensor_aliases import Columns
from .values import numpy_type
from .views import Allocation, View

_GARBAGE = 0xFF         # of which floating-point types make no number
_MOST_LANES = 512       # rows of the tallest table of scales


@dataclass(frozen=True, eq=False)
class TensorMemory:
    """The bytes of all lanes and their marks, rows of `4 * columns` bytes. Tables of scales may use more rows than there are
    lanes."""

    data: np.ndarray
    marks: np.ndarray
    halved: TensorMemory | None = None
    lanes: list[int] = field(default_factory=lambda: [0])       # one number: how many hold garbage, those that a buffer has
    coming: list[InFlight] = field(default_factory=list)
    columns: Columns = field(init=False)

    def __post_init__(self):
        object.__setattr__(self, "columns", Columns(self.marks))

    @classmethod
    def of_columns(cls, columns: int) -> TensorMemory:
        """Fresh memory: garbage, nothing written."""
        planes = (cls._plane(columns), cls._plane(2 * columns))
        return cls(*planes[0], cls(*planes[1]))

    @staticmethod
    def _plane(columns: int) -> tuple[np.ndarray, np.ndarray]:
        shape = (_MOST_LANES, columns * COLUMN_BYTES)
        return np.empty(shape, np.uint8), np.zeros(shape, np.uint8)

    def _spoil(self, rows: int) -> None:
        """Garbage in the lanes of a buffer of so many rows. Most lanes belong to no buffer, and are left alone: filling all would
        take longer than many a kernel."""
        self.data[self.lanes[0]:rows] = _GARBAGE
        self.lanes[0] = max(self.lanes[0], rows)

    def array(self, name: str, type_, place, site, in_pairs: bool = False) -> View:
        """The buffers of one array; those of a slot are an axis of their own unless all follow each other. `in_pairs`: in a kernel
        of pairs of CTAs."""
        if in_pairs and lying(type_, True) != type_:
            wide = replace(place, offset=2 * place.offset, stride=2 * place.stride, size=2 * place.size)
            return self.halved.array(name, type_, wide, site)
        dtype, (rows, columns) = numpy_type(type_.element, site), type_.shape
        self._spoil(rows)
        split = place.group_size > 1 and not place.is_contiguous
        count = (place.slots, place.group_size) if split else (place.count, )
        steps = (place.stride, place.size) if split else (place.size if place.is_contiguous else place.stride, )
        width = self.data.shape[1]
        parts = (np.ndarray((*count, rows, columns), kind, memory, place.offset * COLUMN_BYTES,
                            (*(step * COLUMN_BYTES for step in steps), width, dtype.itemsize))
                 for kind, memory in ((dtype, self.data), (np.dtype(f"i{dtype.itemsize}"), self.marks)))
        allocation = Allocation(name, self.coming, space="tensor")
        self.columns.add(allocation, place)
        return View(allocation, *parts, group_size=place.group_size if split else 1)
