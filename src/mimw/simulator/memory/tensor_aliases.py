"""Which array wrote a column of tensor memory last, where arrays share columns.

Input: the columns of arrays, and each write and read of a view of one. Output: poison for a read of what an array has held and
another array has overwritten since, an error for a product that takes it. For example, of two arrays that begin at one column:

    tmem_store %s; tmem_store %p; tmem_load %s        poison: 's' was overwritten by 'p'; an UnwrittenRead where it is used

A race between the two is the memory model's to find; here they may well be ordered. An array that was never written itself may be
read as what another array holds there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod

import numpy as np

from ...ir import Op, Place
from ...ir.tensor_memory import COLUMN_BYTES
from ..machine.poison import Origin, Poisoned, data_of, mask_of
from ..machine.tasks import Task
from ..memory_model.shadow import address_of
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
        """Refuse an op that uses what another array has overwritten."""
        for cell in self._overwritten(op, view):
            raise self._read(task, op, view, cell).refusal(task, op, "")

    def known(self, task: Task, op: Op, view: View, tile):
        """A tile read from the view, poisoned where another array has overwritten it."""
        lost = set(self._overwritten(op, view)) if task.machine.check_unwritten else ()
        if not lost:
            return tile
        mask = np.array([cell in lost for cell in self._cell_of_each(view)]).reshape(view.extents)
        read = self._read(task, op, view, min(lost))
        return Poisoned(data_of(tile), mask | mask_of([tile]), tile.origin if tile.__class__ is Poisoned else read)

    def _overwritten(self, op: Op, view: View) -> Iterator[Cell]:
        """The cells of a view that were its array's, and that another array has written since."""
        for cell in self._of(view):
            if self.last.get(cell, (view.allocation, op))[0] is not view.allocation and (view.allocation, cell) in self.written:
                yield cell

    def _read(self, task: Task, op: Op, view: View, cell: Cell) -> Origin:
        """The read of an overwritten cell."""
        cells, (by, writer) = self._of(view), self.last[cell]
        return Origin(task, op, f"{op.name} reads {view.name}, column {cell[0] - cells[0][0]} of its "
                      f"{cells[-1][0] - cells[0][0] + 1}, which {writer.name} at {writer.site} has overwritten: {by.name!r} shares "
                      "it", (writer.site, ), f"read {view.allocation.name!r} before that, or give the two columns of their own")

    def _of(self, view: View) -> list[Cell]:
        """The cells of a view, which it keeps."""
        return view.kept(_CELLS) or view.keep(_CELLS, self._cells(view))

    def _cell_of_each(self, view: View) -> Iterator[Cell]:
        """The cell of each element, in the order of the view's data."""
        *lanes, elements = view.data.shape
        lane, byte = self._begin(view)
        columns = [(byte + view.data.itemsize * index) // COLUMN_BYTES for index in range(elements)]
        for row in range(lane, lane + prod(lanes)) if len(lanes) == 1 else _of_halves(lane, lanes):
            yield from ((column, row // BAND) for column in columns)

    def _begin(self, view: View) -> tuple[int, int]:
        """The first lane of a view, and its first byte there."""
        return divmod(address_of(view.marks) - address_of(self.marks), self.marks.shape[1])

    def _cells(self, view: View) -> list[Cell]:
        """Of a view, whose last axis is its columns; halves of rows lie in lanes of their own."""
        *lanes, elements = view.data.shape
        lane, byte = self._begin(view)
        first, count = byte // COLUMN_BYTES, -(-elements * view.data.itemsize // COLUMN_BYTES)
        bands = range(lane // BAND, -(-(lane + prod(lanes)) // BAND))
        return [(column, band) for column in range(first, first + count) for band in bands]


def _of_halves(lane: int, lanes: list[int]) -> Iterator[int]:
    """The lane of each half of each row."""
    rows, halves = lanes
    return (lane + row + rows * half for row in range(rows) for half in range(halves))
