"""Arrays for a proof: as large as those of the launch, with numbers of which no two alike hide a mistake.

Input: the arguments of a launch, by name. Output: fresh copies of them. For example:

    copies({"a": a, "K": 4096})["a"]        as large as `a`, with random numbers, the same ones at each call
    different(plain, other)                 the names of the arrays of which any bit differs

Floats are random: zeros, of which `numpy.zeros` is full, would be equal whatever a kernel did. Integers may be indices, and
keep their values.
"""

from __future__ import annotations

import mmap
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from ...runtime.host import HostArray, TensorDescriptor, element_name, is_array, numpy_dtype
from ...runtime.spans import address, apart, reach

BLOCK = 1 << 16         # random numbers, again and again in a larger array
FILES = 64              # arrays of a launch
_BITS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def size_of(arguments: Mapping[str, Any]) -> int:
    """Bytes of all arrays together."""
    arrays = [array for value in arguments.values() if (array := _array(value)) is not None]
    return sum(array.dtype.itemsize * int(np.prod(array.shape)) for array in arrays)


def copies(arguments: Mapping[str, Any], drawn: bool = True) -> dict[str, Any]:
    """Copies of the arguments by name; an array that stands twice among them is one array again. Floats are random numbers, or
    zeros if none are to be `drawn`."""
    made: dict[int, Any] = {}
    return {name: _copy(value, made, drawn) for name, value in arguments.items()}


def copies_of(memory: Sequence[Any], drawn: bool = True) -> tuple[Any, ...]:
    """Copies of the arrays that a kernel reaches by addresses; with other random numbers than its arguments have."""
    return tuple(_filled(_as_numpy(array), 1000 + number, drawn) for number, array in enumerate(memory))


def relocated(value: Any, before: Sequence[Any], after: Sequence[Any]) -> Any:
    """An array of addresses into some arrays, as one of addresses into others of the same extents; anything else as it is."""
    array = _array(value)
    if not before or array is None or hasattr(value, "block_shape") or _is_float(array) or array.dtype.itemsize != 8:
        return value
    numbers = _as_numpy(value)
    moved = numbers.copy()
    for old, new in zip(before, after):
        inside = _inside(numbers, old)
        moved[inside] = numbers[inside] - address(old) + address(new)
    return moved if (moved != numbers).any() else value


def apart_by_address(arguments: Mapping[str, Any], memory: Sequence[Any]) -> set[str]:
    """The arguments that are arrays of addresses into some arrays of `memory` which no other argument's addresses lead to, and
    which share no byte with an argument."""
    arrays = {name: _as_numpy(array) for name, value in arguments.items() if (array := _array(value)) is not None}
    led: dict[str, list[Any]] = {}
    for name, numbers in arrays.items():
        if numbers.dtype.kind in "iu" and numbers.itemsize == 8:
            led[name] = [one for one in memory if _inside(numbers, one).any()]
    others = {name: [*arrays.values(), *(one for other, many in led.items() if other != name for one in many)] for name in led}
    return {name for name, many in led.items() if many and all(apart(one, other) for one in many for other in others[name])}


def _inside(numbers: np.ndarray, array: Any) -> np.ndarray:
    """True of the addresses that lie in an array; of one without elements, of where it begins."""
    begin, end = reach(array)
    return (numbers >= begin) & (numbers < max(begin + 1, end))


def differing(one: Any, other: Any) -> list[str]:
    """The names of the arrays of two launches of a `Plain` that differ in any bit: arguments, and memory by its number."""
    arguments = {name: relocated(value, other.memory, one.memory) for name, value in other.arguments.items()}
    memory = ({f"memory[{number}]": array for number, array in enumerate(each.memory)} for each in (one, other))
    return [*different(one.arguments, arguments), *different(*memory)]


def different(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """The names of copied arrays that differ in any bit; all NaNs are one."""
    arrays = [name for name, value in one.items() if _array(value) is not None]
    return sorted(name for name in arrays if not _same(_plain(one[name]), _plain(other[name])))


def _plain(value: Any) -> np.ndarray:
    array = _array(value)
    return array.array if isinstance(array, HostArray) else array


def as_array(value: Any) -> np.ndarray | None:
    """The array of a copied argument, or of a descriptor; None for a number."""
    return None if _array(value) is None else _plain(value)


def equal_bits(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """True where two arrays have the same bits; all NaNs are one."""
    words = _BITS[one.dtype.itemsize]
    equal = np.ascontiguousarray(one).view(words) == np.ascontiguousarray(other).view(words)
    return equal | np.isnan(one) & np.isnan(other) if _is_float(one) and not equal.all() else equal


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    return bool(equal_bits(one, other).all())


def on_the_host(value: Any) -> Any:
    """An argument as the simulator takes it: of a tensor on a GPU an array of its shape and strides, with its values if they are
    integers, and with nothing in particular if they are floats."""
    if hasattr(value, "block_shape"):
        base = on_the_host(value.base)
        return value if base is value.base else TensorDescriptor(base, value.shape, value.strides, value.block_shape, value.padding)
    if not hasattr(value, "is_cuda") or not value.is_cuda:
        return value
    if not _is_float(value):
        return _as_numpy(value)
    size = value.element_size()
    extent = sum((length - 1) * step for length, step in zip(value.shape, value.stride())) + 1 if value.numel() else 0
    room = np.empty(extent, numpy_dtype(value.dtype))
    return np.lib.stride_tricks.as_strided(room, tuple(value.shape), tuple(step * size for step in value.stride()))


def _array(value: Any) -> Any:
    """The array of an argument, or of a descriptor; None for a number."""
    value = getattr(value, "base", value) if hasattr(value, "block_shape") else value
    return value if is_array(value) else None


def _is_float(array: Any) -> bool:
    return element_name(array.dtype).startswith(("fp", "bf"))


def _copy(value: Any, made: dict[int, Any], drawn: bool) -> Any:
    if hasattr(value, "block_shape"):
        return replace(value, base=_copy(value.base, made, drawn))
    if not is_array(value):
        return value
    key = value.data_ptr() if hasattr(value, "data_ptr") else value.__array_interface__["data"][0]
    if key not in made:
        made[key] = _filled(_as_numpy(value), len(made), drawn)
    array = made[key]
    return HostArray(array) if isinstance(value, HostArray) else array


def _as_numpy(value: Any) -> np.ndarray:
    """An array as numpy's, with the same strides; one of torch is copied from wherever it lies."""
    if isinstance(value, HostArray):
        return value.array
    if isinstance(value, np.ndarray):
        return value
    value = value.detach().cpu()
    words = getattr(sys.modules["torch"], f"int{8 * value.element_size()}")
    return value.view(words).numpy().view(numpy_dtype(value.dtype))


def _filled(array: np.ndarray, number: int, drawn: bool) -> np.ndarray:
    """An array of the same strides: random numbers for floats, or zeros, the same values for integers."""
    extent = sum((size - 1) * abs(step) for size, step in zip(array.shape, array.strides)) + array.itemsize if array.size else 0
    elements = -(-extent // array.itemsize)
    if _is_float(array):
        room = _random(elements, array.dtype, number) if drawn else np.zeros(elements, array.dtype)
        return np.lib.stride_tricks.as_strided(room, array.shape, array.strides)
    fresh = np.lib.stride_tricks.as_strided(np.zeros(elements, array.dtype), array.shape, array.strides)
    fresh[...] = array
    return fresh


def _random(elements: int, dtype: np.dtype, number: int) -> np.ndarray:
    """Random numbers that nobody else has. They are made once, and each copy has pages of its own where somebody writes alone: a
    proof takes ten copies of all arrays, which may be gigabytes, and its launches write a few tiles of them."""
    if not elements:
        return np.empty(0, dtype)
    pages = mmap.mmap(_file(elements, dtype, number).fileno(), elements * dtype.itemsize, access=mmap.ACCESS_COPY)
    return np.frombuffer(pages, dtype)


@lru_cache(FILES)
def _file(elements: int, dtype: np.dtype, number: int) -> Any:
    """The numbers as an open file, in memory where the system has such files."""
    file = open(os.memfd_create("mimw"), "w+b") if hasattr(os, "memfd_create") else tempfile.TemporaryFile()    # noqa: SIM115
    block = np.random.default_rng(number).standard_normal(min(BLOCK, elements), np.float32).astype(dtype).view(np.uint8)
    for left in range(elements, 0, -BLOCK):
        file.write(memoryview(block)[:left * dtype.itemsize])
    file.flush()
    return file


def forget() -> None:
    """Give the memory of the random numbers back, as far as no copy has them."""
    _file.cache_clear()
