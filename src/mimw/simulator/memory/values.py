"""What the environment of a task holds for each type of the IR.

Input: an IR type, a Python number. Output: numpy's type, numbers and tiles. For example:

    filled(0, Tensor(F32, (4, )))      array([0, 0, 0, 0], dtype=float32)

    Scalar, Pointer    a numpy scalar; a pointer is its address as uint64
    Tensor             a numpy array, which no op writes to once it is in the environment
    Buffer             a `views.View`
    Barrier            a tuple of `mbarriers.Mbarrier`, or one
    Descriptor         a `global_tensors.GlobalTensor`
    Token              None

An asynchronous dot that no wait has finished is a `PendingDot` in place of its array.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from ...compiler.triton_port.interpreter import NUMPY
from ...errors import SimulatorMisuse
from ...ir import Pointer, Tensor, Type


def element_name(type_: Type) -> str:
    """The scalar name that the builder's port knows an element by."""
    element = type_.element if isinstance(type_, Tensor) else type_
    return "pointer" if isinstance(element, Pointer) else element.name


def numpy_type(type_: Type, site=None) -> np.dtype:
    """numpy's type for the elements of `type_`."""
    dtype = NUMPY.get(element_name(type_))
    if dtype is None:
        raise SimulatorMisuse(f"numpy has no type for {type_}, so this kernel cannot be simulated", site)
    return dtype


def filled(value, type_: Type, site=None):
    """A scalar of `type_`, or a tile of it in which every element is `value`; integers wrap."""
    dtype = numpy_type(type_, site)
    scalar = wrapped(value, dtype)
    return np.full(type_.shape, scalar, dtype) if isinstance(type_, Tensor) else scalar


def wrapped(value, dtype: np.dtype):
    """A Python number as a numpy scalar of `dtype`; integers keep their low bits."""
    if dtype.kind == "i":
        return _integer(int(value), dtype)
    if dtype.kind == "u":
        return dtype.type(int(value))
    return dtype.type(value)


@cache
def _integer(value: int, dtype: np.dtype):
    bits = 8 * dtype.itemsize
    return np.array(value & (1 << bits) - 1, f"u{dtype.itemsize}").view(dtype)[()]
