"""Arguments of all kinds as numpy arrays, and where their elements lie.

Input: a numpy array, a tensor of torch, or a descriptor of one. Output: its numbers, or addresses. For example:

    base_of(descriptor)             the array or tensor that it describes
    numbers(tensor)                 numpy, bf16 as fp32
    place(array)                    (address, shape, strides in bytes, bytes an element)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..host import HostArray


def base_of(value: Any) -> Any:
    """The array behind an argument: of a descriptor, what it describes; anything else is what it is."""
    base = value.base if hasattr(value, "block_shape") else value
    return base.array if isinstance(base, HostArray) else base


def is_arraylike(value: Any) -> bool:
    return isinstance(value, np.ndarray) or hasattr(value, "data_ptr") and hasattr(value, "stride")


def numbers(value: Any) -> np.ndarray:
    """The elements as numpy's; of a tensor of torch whose type numpy lacks, as fp32."""
    if not hasattr(value, "detach"):
        return np.asanyarray(value)
    tensor = value.detach().cpu()
    try:
        return tensor.numpy()
    except TypeError:
        return tensor.float().numpy()


def type_name(value: Any) -> str:
    """The element type of an array or tensor: float16, bfloat16, int32, ..."""
    return str(value.dtype).removeprefix("torch.")


def place(value: Any) -> tuple[int, tuple[int, ...], tuple[int, ...], int]:
    """(address of the first element, shape, strides in bytes, bytes an element)."""
    if isinstance(value, np.ndarray):
        return value.ctypes.data, value.shape, value.strides, value.itemsize
    size = value.element_size()
    return value.data_ptr(), tuple(value.shape), tuple(step * size for step in value.stride()), size
