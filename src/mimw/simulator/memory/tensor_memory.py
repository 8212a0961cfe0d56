"""Tensor memory of one CTA: lanes of columns of 32 bits, and buffers as views of some of them.

Input: the number of columns that a kernel takes, and the places of its arrays. Output: views, as those of shared memory. For
example:

    TensorMemory.of_columns(512).array("acc", fp32[128, 128] x 2, place, site).part(1, "[1]")      columns 128 to 255

Row r of a buffer is lane r here, for buffers of 64 rows as well, which the hardware keeps in half the lanes of each warp:
buffers of 64 and of 128 rows that share columns hold nothing of each other that could be meant (PTX ISA, tcgen05.mma, data path
layouts). In kernels of pairs of CTAs row r of 64 has its left half in lane r and its right half in lane 64 + r, as on the hardware
(`Halved`); an operand has its rows in both (`Doubled`). So buffers of 64 and of 128 rows have there what each other wrote. A table
of scales has bytes of its own per row and column; the hardware packs 32 rows and 4 columns of it into one column of lanes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ...ir.tensor_memory import COLUMN_BYTES, lying
from ..machine.poison import Poisoned
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
    lanes: list[int] = field(default_factory=lambda: [0])       # one number: how many hold garbage, those that a buffer has
    coming: list[InFlight] = field(default_factory=list)
    columns: Columns = field(init=False)

    def __post_init__(self):
        object.__setattr__(self, "columns", Columns(self.marks))

    @classmethod
    def of_columns(cls, columns: int) -> TensorMemory:
        """Fresh memory: garbage, nothing written."""
        return cls(*cls._plane(columns))

    @staticmethod
    def _plane(columns: int) -> tuple[np.ndarray, np.ndarray]:
        shape = (_MOST_LANES, columns * COLUMN_BYTES)
        return np.empty(shape, np.uint8), np.zeros(shape, np.uint8)

    def _spoil(self, rows: int) -> None:
        """Garbage in the lanes of a buffer of so many rows. Most lanes belong to no buffer, and are left alone: filling all would
        take longer than many a kernel."""
        self.data[self.lanes[0]:rows] = _GARBAGE
        self.lanes[0] = max(self.lanes[0], rows)

    def array(self, name: str, type_, place, site, in_pairs: bool = False, doubled: bool = False) -> View:
        """The buffers of one array; those of a slot are an axis of their own unless all follow each other. `in_pairs`: in a kernel
        of pairs of CTAs; `doubled`: its rows lie twice."""
        dtype, (rows, columns) = numpy_type(type_.element, site), type_.shape
        split = place.group_size > 1 and not place.is_contiguous
        count = (place.slots, place.group_size) if split else (place.count, )
        steps = (place.stride, place.size) if split else (place.size if place.is_contiguous else place.stride, )
        width, size = self.data.shape[1], dtype.itemsize
        shape, strides, kind = (rows, columns), (width, size), View
        if doubled:
            shape, strides, kind = (rows, 2, columns), (width, rows * width, size), Doubled
        elif in_pairs and lying(type_, True) != type_:
            shape, strides, kind = (rows, 2, columns // 2), (width, rows * width, size), Halved
        self._spoil(rows * (1 if kind is View else 2))
        parts = (np.ndarray((*count, *shape), element, memory, place.offset * COLUMN_BYTES,
                            (*(step * COLUMN_BYTES for step in steps), *strides))
                 for element, memory in ((dtype, self.data), (np.dtype(f"i{size}"), self.marks)))
        allocation = Allocation(name, self.coming, space="tensor")
        self.columns.add(allocation, place)
        return kind(allocation, *parts, group_size=place.group_size if split else 1)


@dataclass(eq=False, slots=True)
class Halved(View):
    """A buffer of rows in halves, or an array: data and marks have the axes row, half, and column of a half."""

    @property
    def extents(self) -> tuple[int, ...]:
        *ahead, halves, columns = self.data.shape
        return (*ahead, halves * columns)

    @property
    def tile(self) -> np.ndarray:
        return self.data.reshape(self.extents)

    def part(self, select, path: str) -> Halved:
        """One buffer of an array."""
        return Halved(self.allocation, self.data[select], self.marks[select], self.path + path)

    def cut(self, box: tuple[slice, ...], path: str) -> View:
        """All columns, or some of one half (`passes/check_pairs.py` has refused others)."""
        columns, half = box[1], self.data.shape[-1]
        if columns.stop - columns.start > half:
            return self.part(..., path)
        which, first = divmod(columns.start, half)
        select = slice(None), which, slice(first, first + columns.stop - columns.start)
        return View(self.allocation, self.data[select], self.marks[select], self.path + path)

    def seen_as(self, type_, site) -> View | None:
        """The same halves as elements of another type; as narrower ones the first columns of each."""
        if lying(type_, True) == type_:
            return None
        dtype = numpy_type(type_.element, site)
        half = slice(type_.shape[1] // 2)
        parts = (part.view(kind)[..., half] for part, kind in ((self.data, dtype), (self.marks, np.dtype(f"i{dtype.itemsize}"))))
        return Halved(self.allocation, *parts, f"{self.path} as {type_}", self.group_size)

    def read(self, task, op, where=...) -> np.ndarray | Poisoned:
        return View.read(self, task, op, where).reshape(self.extents)

    def write(self, tile: np.ndarray | Poisoned, where=...) -> None:
        View.write(self, tile.reshape(self.data.shape), where)

    def element(self, index: tuple[int, ...]) -> tuple[int, ...]:
        *ahead, half, column = index
        return (*ahead, half * self.data.shape[-1] + column)


@dataclass(eq=False, slots=True)
class Doubled(View):
    """A buffer whose rows lie twice, or an array: data and marks have the axes row, copy, and column. Both copies are written; the
    first is read as a tile."""

    @property
    def extents(self) -> tuple[int, ...]:
        *ahead, _, columns = self.data.shape
        return (*ahead, columns)

    @property
    def tile(self) -> np.ndarray:
        return self.data[..., 0, :]

    def part(self, select, path: str) -> Doubled:
        """One buffer of an array."""
        return Doubled(self.allocation, self.data[select], self.marks[select], self.path + path)

    def cut(self, box: tuple[slice, ...], path: str) -> Doubled:
        return self.part((slice(None), slice(None), box[1]), path)

    def seen_as(self, type_, site) -> View:
        """The same rows as elements of another type; as narrower ones the first columns."""
        dtype, columns = numpy_type(type_.element, site), slice(type_.shape[1])
        kinds = (self.data, dtype), (self.marks, np.dtype(f"i{dtype.itemsize}"))
        parts = (part.view(kind)[..., columns] for part, kind in kinds)
        return Doubled(self.allocation, *parts, f"{self.path} as {type_}", self.group_size)

    def read(self, task, op, where=...) -> np.ndarray | Poisoned:
        return View.read(self, task, op, where)[..., 0, :]

    def write(self, tile: np.ndarray | Poisoned, where=...) -> None:
        View.write(self, tile.reshape((*tile.shape[:-1], 1, tile.shape[-1])), where)

    def element(self, index: tuple[int, ...]) -> tuple[int, ...]:
        *ahead, _, column = index
        return (*ahead, column)
