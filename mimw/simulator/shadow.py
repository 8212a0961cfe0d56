"""What is known about each byte of a memory, beside its value: a number per element, found from any numpy view of it.

A memory is a numpy array that owns its bytes; views, slices, transposes and reinterpretations of it lead to the same
shadow. Cells are as wide as the elements of the first access, and are split when a narrower or unaligned one comes.
"""

from __future__ import annotations

import numpy as np


def owner_of(data: np.ndarray) -> np.ndarray:
    """The array that owns the bytes of a view."""
    while isinstance(data.base, np.ndarray):
        data = data.base
    return data


def address_of(data: np.ndarray) -> int:
    return data.__array_interface__["data"][0]


class Shadow:
    """One number per cell of a memory; 0 at first."""

    def __init__(self, memory: np.ndarray, grain: int):
        self.memory = memory                  # held, so that its address is nobody else's
        self.start, self.size, self.grain = address_of(memory), memory.nbytes, grain
        self.cells = np.zeros(-(-self.size // grain), np.int32)
        self._views: dict[tuple, np.ndarray] = {}

    def view(self, data: np.ndarray) -> tuple[np.ndarray, tuple[int, int]]:
        """The cells under a view of the memory, as a view of the cells; its first byte and the one behind its last."""
        key = (address_of(data), data.shape, data.strides, data.itemsize)
        found = self._views.get(key)
        if found is None:
            offset = key[0] - self.start
            self._fit(offset, data.itemsize, *data.strides)
            per, grain = data.itemsize // self.grain, self.grain
            shape, strides = (*data.shape, per), (*(4 * (stride // grain) for stride in data.strides), 4)
            end = offset + sum((extent - 1) * stride for extent, stride in zip(data.shape, data.strides)) + data.itemsize
            found = np.ndarray(shape, np.int32, self.cells, offset // grain * 4, strides), (offset, end)
            self._views[key] = found
        return found

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
        grain = int(np.gcd.reduce((self.grain, *map(abs, extents))))
        if grain != self.grain:
            self.cells = np.repeat(self.cells, self.grain // grain)[:-(-self.size // grain)]
            self.grain = grain
            self._views.clear()
