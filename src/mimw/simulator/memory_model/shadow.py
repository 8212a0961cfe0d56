"""The shadow of a memory: a number for each cell of its bytes, which any numpy view of the memory leads to.

Input: a numpy array that owns its bytes; then views of it. Output: the cells under a view, as a view of the array of numbers. For
example:

    shadow = Shadow(memory, gone)       `gone()` is called when the memory is freed
    place = shadow.view(data)           the place of `data`; who keeps it need not look for it again
    place.cells, place.extent           the cells under `data`; its first byte and the one behind its last

Views, slices, transposes and reinterpretations of a memory share its shadow. Cells are as wide as the accesses so far allow,
tiles and rows of tiles as a rule; a narrower or unaligned access splits them.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import lru_cache
from math import gcd, prod

import numpy as np

BLOCK = 1 << 16     # bytes of a large memory of which is known whether anybody has come there
VIEWS = 4096        # views that are remembered
LAYOUTS = 16384     # of views, in any memory: CTAs and runs have the same ones over and over


def owner_of(data: np.ndarray) -> np.ndarray:
    """The array that owns the bytes of a view."""
    while isinstance(data.base, np.ndarray):
        data = data.base
    return data


def address_of(data: np.ndarray) -> int:
    return data.__array_interface__["data"][0]


class Place:
    """The place of a view of a memory in its shadow.

    cells    the cells under it, as a view of the shadow's
    grain    how wide these are; another width than the shadow's says that cells have been split since (`fit`)
    extent   its first byte and the one behind its last
    size     its bytes, or None if elements of it overlap
    number   of all cells, as long as the shadow's `changes` are `seen`
    """

    __slots__ = ("shadow", "cells", "grain", "extent", "size", "number", "seen", "_layout")

    def __init__(self, shadow: Shadow, layout: _Layout):
        self.shadow, self._layout, self.extent = shadow, layout, layout.extent
        self.number, self.seen = 0, -1
        shadow.use(*layout.extent)
        self.fit()

    def fit(self) -> None:
        """Find the cells anew, split where they are too wide."""
        shadow, layout = self.shadow, self._layout
        shadow.fit(layout.finest)
        self.grain = grain = shadow.grain
        found = layout.cells.get(grain) or layout.divided(grain)
        self.size, first, counts, steps = found
        self.cells = np.ndarray(counts, np.int32, shadow.cells, first, steps)

    def span(self, number: int) -> tuple[int, int]:
        """The first byte and the one behind the last, of the cells with that number."""
        return self.shadow.span(self.cells, self.cells == number)


class _Layout:
    """Elements of `run` bytes from byte `low` of a memory on.

    extent   their first byte and the one behind the last
    finest   cells that divide it are whole under all elements
    cells    by the width of cells: how many bytes these have, None if elements overlap; where the first is in the array of the
             shadow's numbers; how many there are along each axis, and their strides
    """

    __slots__ = ("extent", "finest", "cells", "_axes", "_run", "_apart")

    def __init__(self, low: int, shape: tuple[int, ...], strides: tuple[int, ...], run: int):
        low += sum((extent - 1) * stride for extent, stride in zip(shape, strides) if stride < 0)
        self.extent = low, low + run + sum((extent - 1) * abs(stride) for extent, stride in zip(shape, strides))
        axes, apart = [], True
        for stride, extent in sorted((abs(stride), extent) for extent, stride in zip(shape, strides) if extent > 1):
            if stride == run and not axes:
                run *= extent       # follows without a gap
                continue
            apart = apart and stride >= (run if not axes else axes[-1][0] * axes[-1][1])
            axes.append((stride, extent))
        self._axes, self._run, self._apart = axes, run, apart
        self.finest = gcd(low, run, *(stride for stride, _ in axes))
        self.cells: dict[int, tuple[int | None, int, tuple[int, ...], tuple[int, ...]]] = {}

    def divided(self, grain: int) -> tuple[int | None, int, tuple[int, ...], tuple[int, ...]]:
        """The entry of `cells` for cells of `grain` bytes."""
        counts = *(extent for _, extent in self._axes), self._run // grain
        steps = *(stride // grain * 4 for stride, _ in self._axes), 4
        found = self.cells[grain] = prod(counts) * grain if self._apart else None, self.extent[0] // grain * 4, counts, steps
        return found


_layout_of = lru_cache(LAYOUTS)(_Layout)


class Shadow:
    """One number per cell of a memory; 0 at first. `changes` counts how often a number in it has become another."""

    def __init__(self, memory: np.ndarray, gone: Callable[[], None]):
        self._memory = weakref.ref(memory, lambda _: gone())      # before its address can be another's
        self.start, self.size, self.grain = address_of(memory), memory.nbytes, 0
        self.cells = np.zeros(0, np.int32)
        self._used = np.zeros(-(-self.size // BLOCK), bool)
        self.changes = 0
        self._places: dict[tuple, Place] = {}

    def view(self, data: np.ndarray) -> Place:
        """The place of a view of the memory."""
        key = (address_of(data), data.shape, data.strides, data.itemsize)
        found = self._places.get(key)
        if found is None:
            if len(self._places) >= VIEWS:
                self._places.clear()
            found = self._places[key] = Place(self, _layout_of(key[0] - self.start, *key[1:]))
        return found

    def close(self) -> None:
        """No more accesses come. Places know their shadow, and `gone` what shadows are for: no cycles of references."""
        self._places.clear()
        self._memory = None

    def stretch(self, low: int, size: int) -> Place:
        """The place of the `size` bytes from `low` on."""
        return Place(self, _layout_of(low, (), (), size))

    def at(self, offsets: np.ndarray, size: int) -> np.ndarray:
        """The indices of the cells under elements of `size` bytes at byte `offsets`; aligned to their size."""
        self.fit(size)
        if self._used.size > 1 and offsets.size:
            self.use(int(offsets.min()), int(offsets.max()) + size)
        indices = offsets // self.grain
        per = size // self.grain
        return indices if per == 1 else (indices[:, None] + np.arange(per)).reshape(-1)

    def use(self, low: int, high: int) -> None:
        """Cells between these bytes may get numbers."""
        self._used[low // BLOCK:-(-high // BLOCK)] = True

    def span(self, view: np.ndarray, which: np.ndarray) -> tuple[int, int]:
        """The first byte and the one behind the last, of the cells of `view` where `which` holds."""
        offset = (address_of(view) - address_of(self.cells)) // 4
        places = np.argwhere(which) @ np.array([stride // 4 for stride in view.strides]) + offset
        return int(places.min()) * self.grain, (int(places.max()) + 1) * self.grain

    def fit(self, extent: int) -> None:
        """Split cells so that `extent` is whole cells."""
        if self.grain and extent % self.grain == 0:
            return
        grain = gcd(self.grain, extent)
        before, old, parts = self.cells, self.grain, self.grain // grain
        self.cells, self.grain = np.zeros(-(-self.size // grain), np.int32), grain      # where nobody was it stays untouched
        if old:
            edges = np.flatnonzero(np.diff(self._used, prepend=False, append=False))
            for first, last in edges.reshape(-1, 2) * BLOCK:
                whole = slice(int(first) // old, -(-int(last) // old))
                split = np.repeat(before[whole], parts)
                self.cells[whole.start * parts:][:split.size] = split[:self.cells.size - whole.start * parts]
