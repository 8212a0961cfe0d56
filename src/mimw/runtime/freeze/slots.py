"""What each argument of a launch was frozen to, and which other values may take its place.

Input: how Triton's binder specialised an argument, and the argument. Output: a slot:

    slot = slot_of("x", "*fp32", "D", tensor)       a `Pointer` to fp32, at multiples of 16 bytes
    slot.problem(other_tensor)                      None, or a text such as "x was frozen as ..., and is ..."
    slot_of("n", "i32", "D", 256)                   a `Number`: a multiple of 16 within 32 bits

A slot keeps no array: of one it knows the type, the extents and the strides.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...compiler.triton_port.runtime import TensorDescriptor as StockTensorDescriptor
from ..host import TensorDescriptor, as_bytes, check_descriptor, element_name, is_array, numpy_dtype

ALIGNMENT = 16      # what Triton specialises addresses and integers by, in bytes and in ones


class Address:
    """An array of which a caller gave the address alone: with the type, extents and strides of the one that was frozen."""

    def __init__(self, address: int, dtype: Any, shape: tuple[int, ...], strides: tuple[int, ...]):
        self.address, self.dtype, self.shape, self.strides = address, dtype, shape, strides

    def data_ptr(self) -> int:
        return self.address

    def element_size(self) -> int:
        return self.dtype.itemsize

    def stride(self) -> tuple[int, ...]:
        return self.strides

    def view(self, dtype: Any) -> Address:
        """The same memory with elements of another type, as wide as before."""
        return Address(self.address, dtype, self.shape, self.strides)

    def on_the_host(self) -> np.ndarray:
        """The memory at the address, for the simulator."""
        dtype = numpy_dtype(self.dtype)
        if not math.prod(self.shape):
            return np.empty(self.shape, dtype)
        reach = 1 + sum((extent - 1) * stride for extent, stride in zip(self.shape, self.strides))
        data = np.ctypeslib.as_array((ctypes.c_uint8 * (reach * dtype.itemsize)).from_address(self.address))
        return np.lib.stride_tricks.as_strided(data.view(dtype), self.shape, tuple(step * dtype.itemsize for step in self.strides))


@dataclass(frozen=True)
class Constant:
    """A value that the specialisation has folded: of a parameter for one (`None`, 1, a function)."""

    name: str
    value: Any

    def problem(self, value: Any, device: int | None) -> str | None:
        same = value is self.value or type(value) is type(self.value) and value == self.value
        return None if same else f"{self.name} was frozen as the constant {_short(self.value)}, and is {_short(value)}"

    def full(self, value: Any) -> Any:
        return self.value

    def at(self, value: Any, simulated: bool) -> Any:
        return self.value


@dataclass(frozen=True)
class Number:
    """A number that the kernel gets as `kind`; `aligned` if the kernel was compiled for multiples of 16."""

    name: str
    kind: str
    aligned: bool

    @property
    def limits(self) -> tuple[int, int] | None:
        """The least and the greatest integer of its kind; None for floats and booleans."""
        if self.kind[0] not in "iu" or self.kind in ("i1", "u1"):
            return None
        bits = int(self.kind[1:])
        return (0, (1 << bits) - 1) if self.kind[0] == "u" else (-(1 << bits - 1), (1 << bits - 1) - 1)

    def problem(self, value: Any, device: int | None) -> str | None:
        wanted = {"i1": (bool, np.bool_), "u1": (bool, np.bool_)}.get(self.kind, (int, np.integer) if self.limits else
                                                                      (float, np.floating))
        if not isinstance(value, wanted) or isinstance(value, bool) and self.limits:
            return f"{self.name} was frozen as a number of type {self.kind}, and is {_short(value)}"
        if self.limits and not self.limits[0] <= value <= self.limits[1]:
            return f"{self.name} was frozen as a number of type {self.kind}, which does not hold {value}"
        if self.aligned and value % ALIGNMENT:
            return (f"{self.name} was frozen as a multiple of {ALIGNMENT}, and is {value} = {value // ALIGNMENT} x {ALIGNMENT} + "
                    f"{value % ALIGNMENT}")
        return None

    def full(self, value: Any) -> Any:
        return value

    def at(self, value: Any, simulated: bool) -> Any:
        return value


@dataclass(frozen=True)
class Pointer:
    """An array that the kernel gets as a pointer of type `kind`. `dtype` is that of the frozen array; `aligned` if the kernel was
    compiled for addresses that are multiples of 16."""

    name: str
    kind: str
    aligned: bool
    dtype: Any
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def problem(self, value: Any, device: int | None) -> str | None:
        """`device` is that of the handle; None on the simulator, where every array is aligned."""
        if not is_array(value):
            return f"{self}, and is {_short(value)}"
        if not _alike(value.dtype, self.dtype):
            return f"{self}{_types(self.dtype, value.dtype)}"
        if device is None:
            return None
        return _device_problem(self.name, value, device) or self._misaligned(value.data_ptr())

    def __str__(self) -> str:
        return f"{self.name} was frozen as a pointer to {self.kind.lstrip('*k')}"

    def _misaligned(self, address: int) -> str | None:
        if not self.aligned or address % ALIGNMENT == 0:
            return None
        return f"{self} at a multiple of {ALIGNMENT} bytes, and is at address {address:#x}, {address % ALIGNMENT} bytes behind one"

    def full(self, value: Any) -> Any:
        return as_bytes(value)

    def at(self, value: int, simulated: bool) -> Any:
        array = Address(value, self.dtype, self.shape, self.strides)
        return as_bytes(array.on_the_host() if simulated else array)


@dataclass(frozen=True)
class Descriptor:
    """A tensor descriptor. Another tensor may take its place, or a descriptor of one, with the same type, extents and strides."""

    name: str
    dtype: Any
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    block: tuple[int, ...]
    padding: str
    tf32: bool
    index: int      # among the kernel's descriptors

    def problem(self, value: Any, device: int | None) -> str | None:
        base, shape, strides = value, getattr(value, "shape", None), None
        if isinstance(value, StockTensorDescriptor):
            base, strides = value.base, tuple(value.strides)
            copies = tuple(value.block_shape), value.padding, value.round_f32_to_tf32
            if copies != (frozen := (self.block, self.padding, self.tf32)):
                return f"{self.name} was frozen as a descriptor of {_copies(*frozen)}, and is one of {_copies(*copies)}"
        elif not is_array(value):
            return f"{self}, and is {_short(value)}"
        else:
            strides = strides_of(value)
        if not self.matches(shape, strides):
            return f"{self}, and is {_shown(tuple(shape), strides)}"
        if not _alike(base.dtype, self.dtype):
            return f"{self}{_types(self.dtype, base.dtype)}"
        if device is None:
            return None
        return _device_problem(self.name, base, device) or self.misaligned(base.data_ptr())

    def matches(self, shape, strides) -> bool:
        """True for the extents and strides that were frozen."""
        return tuple(shape) == self.shape and tuple(strides) == self.strides

    def misaligned(self, address: int) -> str | None:
        """The reason why a tensor's address does not fit; None if it does."""
        if address % ALIGNMENT == 0:
            return None
        return (f"{self.name} is a tensor descriptor, and tensors of such begin at multiples of {ALIGNMENT} bytes; this one begins "
                f"at address {address:#x}, {address % ALIGNMENT} bytes behind one")

    def __str__(self) -> str:
        return f"{self.name} was frozen as a descriptor of {_shown(self.shape, self.strides)}"

    def full(self, value: Any) -> Any:
        if isinstance(value, StockTensorDescriptor):
            return as_bytes(value)
        return as_bytes(TensorDescriptor(value, list(self.shape), list(self.strides), list(self.block), self.padding, self.tf32))

    def at(self, value: int, simulated: bool) -> Any:
        array = Address(value, self.dtype, self.shape, self.strides)
        return self.full(array.on_the_host() if simulated else array)


@dataclass(frozen=True)
class Tuple:
    """A tuple of slots."""

    name: str
    items: tuple
    make: Callable[[list], tuple]

    def problem(self, value: Any, device: int | None) -> str | None:
        if not isinstance(value, tuple) or len(value) != len(self.items):
            return f"{self.name} was frozen as a tuple of {len(self.items)}, and is {_short(value)}"
        return next(filter(None, (slot.problem(item, device) for slot, item in zip(self.items, value))), None)

    def full(self, value: Any) -> Any:
        return self.make([slot.full(item) for slot, item in zip(self.items, value)])

    def at(self, value: Any, simulated: bool) -> Any:
        return self.make([slot.at(item, simulated) for slot, item in zip(self.items, value)])


Slot = Constant | Number | Pointer | Descriptor | Tuple


def slot_of(name: str, kind: Any, attribute: Any, value: Any, counter: Any = None) -> Slot:
    """The slot of an argument of which Triton's binder says the type `kind` and the `attribute`; `counter` numbers descriptors."""
    if isinstance(kind, tuple):
        attributes = attribute if isinstance(attribute, tuple) else (None, ) * len(kind)
        items = tuple(slot_of(f"{name}[{at}]", *of, counter) for at, of in enumerate(zip(kind, attributes, value)))
        return Tuple(name, items, type(value)._make if hasattr(value, "_fields") else tuple)
    if kind == "constexpr":
        return Constant(name, value)
    aligned = isinstance(attribute, str) and "D" in attribute
    if kind.startswith("tensordesc"):
        check_descriptor(value, f"the tensor descriptor given as {name!r}")
        return Descriptor(name, value.base.dtype, tuple(value.shape), tuple(value.strides), tuple(value.block_shape), value.padding,
                          value.round_f32_to_tf32, next(counter))
    if kind.startswith("*"):
        return Pointer(name, kind, aligned, value.dtype, tuple(value.shape), strides_of(value))
    return Number(name, kind, aligned)


def strides_of(array: Any) -> tuple[int, ...]:
    """The strides of an array in elements."""
    if isinstance(array, np.ndarray):
        return tuple(step // array.itemsize for step in array.strides)
    return tuple(array.stride())


def _copies(block: tuple[int, ...], padding: str, tf32: bool) -> str:
    """The blocks, padding and rounding of a descriptor's copies, in words."""
    return f"blocks {block}, padding {padding!r}, round_f32_to_tf32={tf32}"


def _shown(shape: tuple[int, ...], strides: tuple[int, ...]) -> str:
    return f"a tensor of {'x'.join(map(str, shape))} with strides {strides}"


def _alike(dtype: Any, frozen: Any) -> bool:
    """True for the element types of numpy and torch that a kernel takes for one."""
    return dtype is frozen or dtype == frozen or element_name(dtype) == element_name(frozen)


def _types(frozen: Any, dtype: Any) -> str:
    return f", with elements of {element_name(frozen)}, and has elements of {element_name(dtype)}"


def _device_problem(name: str, value: Any, device: int) -> str | None:
    """Arrays that cannot say where they are, and pinned memory of the host, are the driver's to refuse."""
    if not hasattr(value, "get_device"):
        return None
    at = value.get_device()
    if at == device or at < 0 and value.is_pinned():
        return None
    return f"{name} is on {f'device {at}' if at >= 0 else 'the CPU'}, and the launch was frozen on device {device}"


def _short(value: Any) -> str:
    if is_array(value):
        return f"an array of {value.dtype}"
    if isinstance(value, StockTensorDescriptor):
        return "a tensor descriptor"
    text = repr(value)
    return f"{text if len(text) <= 60 else text[:57] + '...'} ({type(value).__name__})"
