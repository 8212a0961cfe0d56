"""Sectors of memory that a tile of pointers reaches: what a load moves, however few of a sector's bytes it wants.

Input: addresses, and a mask. Output: the numbers of sectors of 32 bytes, each once. For example:

    sectors([0, 2, 4, .., 62])          [0, 1]: two sectors, as much as the elements hold
    sectors([0, 4096, 8192])            three sectors for three elements of two bytes: 16 times what they hold
"""

from __future__ import annotations

import numpy as np

SECTOR = 32     # bytes (CUDA C++ Programming Guide, global memory: transactions of 32 bytes)


def sectors(addresses, mask=None) -> np.ndarray:
    """Few are sorted: of elements in the sector of the one to their left or above them, that one stands for both."""
    found = np.atleast_1d(np.asarray(addresses, np.uint64)) // np.uint64(SECTOR)
    if mask is not None:
        found = found[np.broadcast_to(np.asarray(mask, bool), found.shape)]
    first = np.ones(found.shape, bool)
    for axis in range(found.ndim):
        here, before = np.moveaxis(found, axis, 0), np.moveaxis(first, axis, 0)
        before[1:] &= here[1:] != here[:-1]
    return np.unique(found[first])
