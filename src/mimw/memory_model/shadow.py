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

import numpy as np

VIEWS = 4096        # views that are remembered


def owner_of(data: np.ndarray) -> np.ndarray:
    """The array that owns the bytes of a view."""
    while isinstance(data.base, np.ndarray):
        data = data.base
    return data


def address_of(data: np.ndarray) -> int:
    return data.__array_interface__["data"][0]


class Place:
    """Where a view of a memory lies in its shadow.

    cells    the cells under it, as a view of the shadow's
    grain    how wide these are; another width than the shadow's says that cells have been split since (`fit`)
    extent   its first byte and the one behind its last
    size     its bytes, or None if elements of it overlap
    """

    __slots__ = ("shadow", "cells", "grain", "extent", "size", "_box")

    def __init__(self, shadow: Shadow, *box):
        self.shadow, self._box, self.grain = shadow, box, 0
        self.fit()

    def fit(self) -> None:
        """Find the cells anew."""
        self.cells, self.extent, self.size = self.shadow.found(*self._box)
        self.grain = self.shadow.grain


class Shadow:
    """One number per cell of a memory; 0 at first."""

    def __init__(self, memory: np.ndarray, gone: Callable[[], None]):
        self._memory = weakref.ref(memory, lambda _: gone())      # before its address can be another's
        self.start, self.size, self.grain = address_of(memory), memory.nbytes, 0
        self.cells = np.zeros(0, np.int32)
        self._places: dict[tuple, Place] = {}

    def view(self, data: np.ndarray) -> Place:
        """Where a view of the memory lies."""
        key = (address_of(data), data.shape, data.strides, data.itemsize)
        found = self._places.get(key)
        if found is None:
            if len(self._places) >= VIEWS:
                self._places.clear()
            found = self._places[key] = Place(self, key[0] - self.start, *key[1:])
        return found

    def close(self) -> None:
        """No more accesses come. Places know their shadow, and `gone` what shadows are for: no cycles of references."""
        self._places.clear()
        self._memory = None

    def stretch(self, low: int, size: int) -> Place:
        """As `view`, of the `size` bytes from `low` on."""
        return Place(self, low, (), (), size)

    def found(self, low: int, shape: tuple[int, ...], strides: tuple[int, ...], run: int):
        """The cells under elements of `run` bytes from byte `low` on, split where they are too wide; their extent; their bytes,
        or None if elements overlap."""
        low += sum((extent - 1) * stride for extent, stride in zip(shape, strides) if stride < 0)
        high = low + run + sum((extent - 1) * abs(stride) for extent, stride in zip(shape, strides))
        axes, apart = [], True
        for stride, extent in sorted((abs(stride), extent) for extent, stride in zip(shape, strides) if extent > 1):
            if stride == run and not axes:
                run *= extent       # follows without a gap
                continue
            apart = apart and stride >= (run if not axes else axes[-1][0] * axes[-1][1])
            axes.append((stride, extent))
        self._fit(low, run, *(stride for stride, _ in axes))
        grain = self.grain
        cells = np.ndarray((*(extent for _, extent in axes), run // grain), np.int32, self.cells, low // grain * 4,
                           (*(stride // grain * 4 for stride, _ in axes), 4))
        return cells, (low, high), cells.size * grain if apart else None

    def at(self, offsets: np.ndarray, size: int) -> np.ndarray:
        """The indices of the cells under elements of `size` bytes at byte `offsets`; aligned to their size."""
        self._fit(size)
        indices = offsets // self.grain
        per = size // self.grain
        return indices if per == 1 else (indices[:, None] + np.arange(per)).reshape(-1)

    def span(self, view: np.ndarray, which: np.ndarray) -> tuple[int, int]:
        """The first byte and the one behind the last, of the cells of `view` where `which` holds."""
        offset = (address_of(view) - address_of(self.cells)) // 4
        places = np.argwhere(which) @ np.array([stride // 4 for stride in view.strides]) + offset
        return int(places.min()) * self.grain, (int(places.max()) + 1) * self.grain

    def _fit(self, *extents: int) -> None:
        """Split cells so that every one of `extents` is whole cells."""
        grain = int(np.gcd.reduce((self.grain, *extents)))
        if grain == self.grain:
            return
        count = -(-self.size // grain)
        self.cells = np.repeat(self.cells, self.grain // grain)[:count] if self.grain else np.zeros(count, np.int32)
        self.grain = grain
