"""Numbers beside global memory, one for each element of an array: those of the elements that an access touches.

Input: the numbers of a region, and an access by addresses or a box of it. Output: the place of its numbers. For example:

    items(offsets, 4, 4)                                       offsets // 4: an item each
    numbers, where = under(numbers, start, item, address, shape, strides, size)
    numbers[where] = 7                                         of all elements of the box
"""

from __future__ import annotations

from typing import Any

import numpy as np


def items(offsets: np.ndarray, size: int, item: int) -> np.ndarray:
    """The numbers of the elements of `item` bytes that hold the `size` bytes at each offset."""
    if size <= item:
        return offsets // item
    return (offsets[:, None] // item + np.arange(-(-size // item))).reshape(-1)


def under(numbers: np.ndarray, start: int, item: int, address: int, shape: tuple[int, ...], strides: tuple[int, ...],
          size: int) -> tuple[np.ndarray, Any]:
    """(an array, an index into it) of the numbers under a box of elements of `size` bytes: a view of `numbers` where the box has
    elements of the region's own, which begins at `start` and has `item` bytes an element. Strides are in bytes."""
    offset, width = address - start, numbers.itemsize
    if size == item and not offset % item and not any(step % item for step in strides):
        steps = tuple(step // item * width for step in strides)
        return np.ndarray(shape, numbers.dtype, numbers, offset // item * width, steps), ...
    flat = np.full(shape, offset, np.int64)
    for axis, (extent, step) in enumerate(zip(shape, strides)):
        flat += (np.arange(extent) * step).reshape([-1 if one == axis else 1 for one in range(len(shape))])
    return numbers, items(flat.reshape(-1), size, item)
