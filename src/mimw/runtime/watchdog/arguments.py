"""Copies of a launch's arguments in numpy, taken from the device while the kernel hangs.

Input: the arguments, and how to read the device. Output: the same arguments with numpy arrays; arrays that overlap on the device
overlap here, too.

    copies = on_the_host(args, lambda address, size: cuda.copied(address, size, until), most=1 << 28)

The copies are what the arrays hold now: what the kernel has written before it hung is in them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ir.tuples import like
from ..host import HostArray, TensorDescriptor, is_array, numpy_dtype


class TooLarge(Exception):
    """The arrays hold more bytes than are copied."""


def on_the_host(values: Sequence[Any], read: Callable[[int, int], np.ndarray], most: int) -> list[Any]:
    """The values with arrays copied by `read(address, bytes)`; TooLarge if all of them hold more than `most` bytes."""
    spans: list[tuple[int, int]] = []
    for low, high in sorted(_span(array) for array in _arrays(values)):
        if spans and low < spans[-1][1]:
            spans[-1] = spans[-1][0], max(high, spans[-1][1])
        elif high > low:
            spans.append((low, high))
    size = sum(high - low for low, high in spans)
    if size > most:
        raise TooLarge(f"its arrays hold {size >> 20} MB, and up to {most >> 20} MB are copied")
    bytes_at = [(low, high, read(low, high - low)) for low, high in spans]
    return [_copy(value, bytes_at) for value in values]


def _arrays(values):
    for value in values:
        if isinstance(value, (tuple, list)):
            yield from _arrays(value)
        elif hasattr(value, "block_shape") and hasattr(value, "base"):
            yield value.base
        elif is_array(value) and not isinstance(value, (np.ndarray, HostArray)):
            yield value


def _span(array) -> tuple[int, int]:
    """The device addresses [low, high) of an array's elements."""
    start = array.data_ptr()
    if not all(array.shape):
        return start, start
    return start, start + (1 + sum((size - 1) * step for size, step in zip(array.shape, array.stride()))) * array.element_size()


def _copy(value, bytes_at):
    if isinstance(value, (tuple, list)):
        return like(value, [_copy(item, bytes_at) for item in value])
    if hasattr(value, "block_shape") and hasattr(value, "base"):
        return TensorDescriptor(_copy(value.base, bytes_at), list(value.shape), list(value.strides), value.block_shape,
                                value.padding, value.round_f32_to_tf32)
    if not is_array(value) or isinstance(value, (np.ndarray, HostArray)):
        return value
    dtype, (low, high) = numpy_dtype(value.dtype), _span(value)
    if low == high:
        return np.empty(tuple(value.shape), dtype)
    start, _, data = next(found for found in bytes_at if found[0] <= low and high <= found[1])
    flat = data[low - start:high - start].view(dtype)
    return np.lib.stride_tricks.as_strided(flat, tuple(value.shape), tuple(step * dtype.itemsize for step in value.stride()))
