"""What the numbers in shadows stand for: states of cells, kept by number; a number is given again once no shadow holds it.

Input: states to number, and the shadows that hold numbers. Output: numbers. For example:

    numbers = Numbers(nothing)             number 0 stands for `nothing`
    numbers.add(State(writes, reads))      the number of that state from here on
    numbers.drop(shadow.cells)             that shadow's memory is freed; no other shadow holds numbers of these cells
    numbers.sweep(shadows)                 now and then: states whose number is in no cell of these shadows are forgotten
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

SWEEP = 4096        # things held before it pays to look which of them still are


class Numbers:
    """A list with holes, which are filled first."""

    def __init__(self, first: Any):
        self._held: list[Any] = [first]
        self._free: list[int] = []
        self._limit = SWEEP

    def __getitem__(self, number: int) -> Any:
        return self._held[number]

    def __len__(self) -> int:
        return len(self._held) - len(self._free)

    @property
    def full(self) -> bool:
        """True if it is time to sweep. Not between `add` and writing the number down."""
        return not self._free and len(self._held) >= self._limit

    def add(self, thing: Any) -> int:
        if self._free:
            number = self._free.pop()
            self._held[number] = thing
            return number
        self._held.append(thing)
        return len(self._held) - 1

    def drop(self, cells: np.ndarray) -> None:
        there = np.zeros(len(self._held), bool)
        there[cells] = True
        there[0] = False
        for number in np.flatnonzero(there).tolist():
            self._held[number] = None
            self._free.append(number)

    def sweep(self, shadows: Iterable[Any]) -> None:
        used, cells = np.zeros(len(self._held), bool), 0
        used[0] = True
        for shadow in shadows:
            used[shadow.cells] = True
            cells += shadow.cells.size
        self._free = np.flatnonzero(~used).tolist()
        for number in self._free:
            self._held[number] = None
        self._limit = max(SWEEP, 2 * len(self), cells // 256)       # looking at a cell is cheap, and so is this in all


class State:
    """The accesses to some cells that later ones have to come after.

    writes   the last write, or all atomic ones since the last other one
    reads    by cluster: those since then, less those that a later one of them says enough about
    last     the newest of the reads
    owned    how many bytes are in this state, if that is known: who touches so many of them touches all
    born     states are looked at in the order in which they came to be
    """

    __slots__ = ("writes", "reads", "last", "owned", "born")

    def __init__(self, writes: tuple = (), reads: dict | None = None, last: Any = None, owned: int | None = None, born: int = 0):
        self.writes, self.reads, self.last, self.owned, self.born = writes, {} if reads is None else reads, last, owned, born

    def all_reads(self) -> list:
        """In the order in which they happened."""
        if len(self.reads) > 1:
            return sorted((one for some in self.reads.values() for one in some), key=lambda access: access.number)
        return [one for some in self.reads.values() for one in some]
