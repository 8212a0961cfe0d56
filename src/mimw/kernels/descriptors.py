"""Tensor descriptors of the library's operands.

Input: a numpy or torch array and a block. Output: a `mimw.TensorDescriptor`. For example:

    described(a, [128, 64])         blocks of a matrix whose rows TMA can read ("tma" in contracts)
    Maps([described(c, [64, 64]), described(c, [64, 32])])      one argument of a kernel, for which an operator takes one tensor
"""

from __future__ import annotations

from typing import Any

import mimw

from .contract.memory import strides


class Maps(tuple):
    """Descriptors of one array, by blocks of several sizes."""


def described(array: Any, block: list[int]) -> mimw.TensorDescriptor:
    """The descriptor of a whole array. The stride of an extent of 1 says nothing, and may be what TMA refuses: it gets another."""
    shape, *steps = list(map(int, array.shape)), *strides(array)
    whole = 16 // array.dtype.itemsize
    steps = [step if extent > 1 else -(-shape[-1] // whole) * whole for extent, step in zip(shape[:-1], steps)]
    return mimw.TensorDescriptor(array, shape, [*steps, 1], block)
