"""Tensor descriptors of the library's operands.

Input: a numpy or torch array and a block. Output: a `mimw.TensorDescriptor`. For example:

    described(a, [128, 64])         blocks of a matrix whose rows TMA can read ("tma" in contracts)
    maps(c, [[64, 64], [64, 32]])   a `Maps`, a tuple of two such descriptors
"""

from __future__ import annotations

from typing import Any

import mimw

from .contract.memory import strides


class Maps(tuple):
    """Descriptors of one array, by blocks of several sizes."""


def maps(array: Any, blocks: list[list[int]]) -> Maps:
    """The descriptors of a whole array by these blocks."""
    return Maps(described(array, block) for block in blocks)


def described(array: Any, block: list[int]) -> mimw.TensorDescriptor:
    """The descriptor of a whole array. The stride of an extent of 1 says nothing, and may be what TMA refuses: it gets another."""
    shape, *steps = list(map(int, array.shape)), *strides(array)
    whole = 16 // array.dtype.itemsize
    steps = [step if extent > 1 else -(-shape[-1] // whole) * whole for extent, step in zip(shape[:-1], steps)]
    return mimw.TensorDescriptor(array, shape, [*steps, 1], block)
