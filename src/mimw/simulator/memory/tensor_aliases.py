"""Which array wrote a column of tensor memory last, where arrays share columns.

Input: the columns of arrays, and each write and read of a view of one. Output: an error for a read of what an array has held and
another array has overwritten since. For example, of two arrays that begin at one column:

    tmem_store %s; tmem_store %p; tmem_load %s        UnwrittenRead: 's' was overwritten by 'p', with both lines

A race between the two is the memory model's to find; here they may well be ordered. An array that was never written itself may be
read as what another array holds there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

import numpy as np

from ...errors import UnwrittenRead, fail
from ...ir import Op, Place
from ...ir.tensor_memory import COLUMN_BYTES
from ...memory_model.shadow import address_of
from ..machine.tasks import Task
from .views import Allocation, View

BAND = 64                       # lanes: of the shortest buffer of a product
_CELLS = "cells"                # what a view keeps them as
Cell = tuple[int, int]          # a column, and which 64 lanes of it


@dataclass(eq=False)
class Columns:
    """The columns of one tensor memory, whose marks are `marks`: for each of their cells, of 64 lanes, the array that wrote it
    last, and the op."""

    marks: np.ndarray
    arrays: list[tuple[Allocation, set[int]]] = field(default_factory=list)
    last: dict[Cell, tuple[Allocation, Op]] = field(default_factory=dict)
    written: set[tuple[Allocation, Cell]] = field(default_factory=set)

    def add(self, allocation: Allocation, place: Place) -> None:
        """An array at its place. Those that share columns with others know it, and only they ask here."""
        mine = {column for index in range(place.count) for column in range(place.start(index), place.start(index) + place.size)}
        for other, columns in self.arrays:
            if not mine.isdisjoint(columns):
                allocation.columns = other.columns = self
        self.arrays.append((allocation, mine))

    def write(self, op: Op, view: View) -> None:
        """Note that `op` writes the view, or has put the write into the queue of its task."""
        for cell in self._of(view):
            self.last[cell] = view.allocation, op
            self.written.add((view.allocation, cell))

    def check(self, task: Task, op: Op, view: View) -> None:
        """Refuse to read what another array has overwritten."""
        cells = self._of(view)
        for cell in cells:
            by, writer = self.last.get(cell, (view.allocation, op))
            if by is not view.allocation and (view.allocation, cell) in self.written:
                raise fail(UnwrittenRead, task, op, f"{op.name} reads {view.name}, column {cell[0] - cells[0][0]} of its "
                           f"{cells[-1][0] - cells[0][0] + 1}, which {writer.name} at {writer.site} has overwritten: {by.name!r} "
                           "shares it", writer.site,
                           hint=f"read {view.allocation.name!r} before that, or give the two columns of their own")

    def _of(self, view: View) -> list[Cell]:
        """The cells of a view, which it keeps."""
        return view.kept(_CELLS) or view.keep(_CELLS, self._cells(view))

    def _cells(self, view: View) -> list[Cell]:
        """Of a view, whose last axis is its columns; halves of rows lie in lanes of their own."""
        *lanes, elements = view.data.shape
        lane, byte = divmod(address_of(view.marks) - address_of(self.marks), self.marks.shape[1])
        first, count = byte // COLUMN_BYTES, -(-elements * view.data.itemsize // COLUMN_BYTES)
        bands = range(lane // BAND, -(-(lane + prod(lanes)) // BAND))
        return [(column, band) for column in range(first, first + count) for band in bands]
