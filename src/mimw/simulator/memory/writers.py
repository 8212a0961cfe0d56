"""The book of a run's writes to global memory: which op of which task wrote each element last.

Input: a run whose hooks have a `Writers`. Output: the writer of an address, and which elements of an array have one. For example:

    writers = Writers()
    run(program, grid, args, hooks=Hooks(writers=writers))
    writers.at(address)             Writer("task 'add' of CTA (3, 0, 0)", (3, 0, 0), op); None if no program wrote there
    writers.numbers(...)            the same of all elements of an array, as numbers of `writers.who`, from 1 on

A write counts from when it is issued. Memory that nobody writes costs nothing: a region has its numbers from its first write on.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ...ir import Op
from ..memory_model.shadow import address_of
from .items import items, under


@dataclass(frozen=True)
class Writer:
    """An op of one task. `where` names task and CTA, `cta` is the program id; `atomic`: the op may combine what it writes with what
    is there."""

    where: str
    cta: tuple[int, int, int]
    op: Op
    atomic: bool = False


@dataclass(frozen=True, eq=False)
class Numbered:
    """The bytes of one array in memory: of each `item` of them the number of their writer, from 1 on."""

    start: int
    size: int
    item: int
    numbers: np.ndarray


@dataclass
class Writers:
    """All writes of one run, the last to each element."""

    who: list[Writer] = field(default_factory=list)
    known: dict[tuple, int] = field(default_factory=dict)
    regions: dict[tuple[int, int], Numbered] = field(default_factory=dict)

    def elements(self, actor, op: Op, region, offsets: np.ndarray, size: int, atomic: bool) -> None:
        """`actor` writes elements of `size` bytes at these offsets in the region."""
        found = self._region(region)
        found.numbers[items(offsets, size, found.item)] = self._number(actor, op, atomic)

    def box(self, actor, op: Op, region, part: np.ndarray, atomic: bool) -> None:
        """`actor` writes a box, of which `part` is a view."""
        found = self._region(region)
        numbers, where = under(found.numbers, found.start, found.item, address_of(part), part.shape, part.strides, part.itemsize)
        numbers[where] = self._number(actor, op, atomic)

    def at(self, address: int) -> Writer | None:
        """The last writer of the element at an address."""
        for found in self.regions.values():
            if found.start <= address < found.start + found.size:
                number = found.numbers[(address - found.start) // found.item]
                return self.who[number - 1] if number else None
        return None

    def numbers(self, address: int, shape: tuple[int, ...], strides: tuple[int, ...], size: int) -> np.ndarray:
        """The numbers in `who`, from 1 on, of the writers of an array's elements, 0 for none, as an array of its shape; of an
        element in parts, that of its first. `strides` and `size` are in bytes. To be read only: it may be the book's own array."""
        for found in self.regions.values():
            if found.start <= address < found.start + found.size:
                numbers, where = under(found.numbers, found.start, found.item, address, shape, strides, min(size, found.item))
                return numbers[where].reshape(shape)
        return np.zeros(shape, np.int32)

    def _region(self, region) -> Numbered:
        key = region.start, region.size
        found = self.regions.get(key)
        if found is None:
            found = self.regions[key] = Numbered(*key, region.item, np.zeros(-(-region.size // region.item), np.int32))
        return found

    def _number(self, actor, op: Op, atomic: bool) -> int:
        task = actor.task
        key = task.cta.number, task.name, op
        number = self.known.get(key)
        if number is None:
            self.who.append(Writer(task.where, task.cta.index, op, atomic))
            number = self.known[key] = len(self.who)
        return number
