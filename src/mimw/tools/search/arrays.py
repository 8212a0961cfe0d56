"""The arrays of a launch: put back before each run, and whether processes may write them apart from each other.

Input: the launch's arguments. Output: the same arrays with the contents that they had at first. For example:

    arrays = Arrays(launch.arrays())
    arrays.restore()                contents as they were when `arrays` was made
    arrays.shared()                 whether other processes would see what one process writes

Of a large array, as a heap of several GPUs has, only the blocks are kept that hold anything but zeros, and only those are written
that have changed: what no run touches costs no memory.
"""

from __future__ import annotations

import numpy as np

from ...ir.world import PerRank
from ...simulator import describe

BLOCK = 1 << 20     # bytes of a large array that are kept, or put back, together


class Arrays:
    """The contents of the arrays among `values`; nothing writes those that may only be read."""

    def __init__(self, values):
        values = [one for value in values for one in (value if isinstance(value, PerRank) else (value, ))]
        arrays = [getattr(value, "base", value) if hasattr(value, "block_shape") else value for value in values]
        arrays = [getattr(array, "array", array) for array in arrays]
        self.copies = [(array, _kept(array)) for array in arrays
                       if (array.flags.writeable if isinstance(array, np.ndarray) else hasattr(array, "clone"))]

    def restore(self) -> None:
        for array, copy in self.copies:
            if isinstance(copy, Blocks):
                copy.restore()
            else:
                _data(array)[...] = copy

    def shared(self) -> bool:
        """True if an array lies in memory that forked processes share, as a file mapped for writing does; then one process's
        writes are the others' input. True also where the system does not say."""
        try:
            with open("/proc/self/maps", encoding="ascii", errors="replace") as maps:
                rows = [line.split(maxsplit=2)[:2] for line in maps]
        except OSError:
            return True
        shared = [tuple(int(end, 16) for end in span.split("-")) for span, rights in rows if rights[1] == "w" and rights[3] == "s"]
        spans = [describe(array, "")[:2] for array, _ in self.copies] if shared else []
        return any(low < start + size and start < high for start, size in spans for low, high in shared)


class Blocks:
    """The bytes of a large array whose elements follow each other."""

    def __init__(self, array: np.ndarray):
        self.bytes = array.reshape(-1).view(np.uint8)
        self.kept = [block.copy() if block.any() else None for block in self._blocks()]

    def restore(self) -> None:
        for block, kept in zip(self._blocks(), self.kept):
            if kept is None:
                if block.any():
                    block[...] = 0
            elif not np.array_equal(block, kept):
                block[...] = kept

    def _blocks(self):
        return (self.bytes[first:first + BLOCK] for first in range(0, self.bytes.size, BLOCK))


def _kept(array):
    if not isinstance(array, np.ndarray):
        return _data(array).clone()
    return Blocks(array) if array.nbytes > BLOCK and array.flags.c_contiguous else array.copy()


def _data(array):
    """An array of numpy, or a tensor's elements without torch's autograd: to write something and to put it back is no change of a
    value that a derivative needs."""
    return array if isinstance(array, np.ndarray) else array.data
