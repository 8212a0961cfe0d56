"""Global memory: the arrays given to the launch, as arguments or as its `memory=`, at their real addresses, and nothing else.

Input: arrays to register; then addresses, masks and values. Output: the elements there, or an error that names the array. For
example:

    address = memory.register(array, "x")
    memory.read(addresses, mask, np.dtype(np.float32), None, task, op)

Pointers are numbers, as on the GPU. Every access is checked against the arrays of the launch: a wrong address, or a write into an
array that numpy marks read-only, is an error instead of a crash. Elements whose mask is false are not looked at.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...compiler.analysis import makes_pointers
from ...errors import OutOfBounds, PeerUnreachable, SimulationError, SimulatorMisuse
from .naming import named

_BY_ADDRESS = "; an array that only an address leads to, as one out of a table, has to be in the launch's memory=[...]"


@dataclass(eq=False)
class Region:
    """The bytes of one argument, or of an array that the kernel reaches by an address that it reads (`given` is False then)."""

    name: str
    start: int
    size: int
    item: int                         # bytes of one element, for messages
    owner: Any                        # keeps the memory alive
    writable: bool = True
    rank: int | None = None           # whose memory, where there are several GPUs
    symmetric: bool = False           # whether other GPUs have the same array and reach this one
    given: bool = True
    bytes: np.ndarray = field(init=False)

    def __post_init__(self):
        self.bytes = np.ctypeslib.as_array((ctypes.c_uint8 * self.size).from_address(self.start)) if self.size else \
            np.zeros(0, np.uint8)
        self.bytes.flags.writeable = self.writable      # the pages of a file mapped read-only end the process that writes them
        self._views: dict[np.dtype, np.ndarray] = {}

    @property
    def end(self) -> int:
        return self.start + self.size

    @property
    def label(self) -> str:
        """The array for messages."""
        return f"argument {self.told}" if self.given else self.told

    @property
    def told(self) -> str:
        """Its name for messages."""
        return (repr(self.name) if self.given else self.name) + ("" if self.rank is None else f" of rank {self.rank}")

    def view(self, dtype: np.dtype) -> np.ndarray:
        """The region as elements of `dtype`; a tail too short for one is left out."""
        found = self._views.get(dtype)
        if found is None:
            found = self._views[dtype] = self.bytes[:self.size // dtype.itemsize * dtype.itemsize].view(dtype)
        return found


def describe(array: Any, name: str) -> tuple[int, int, int]:
    """(address, bytes, bytes per element) of a numpy array or a torch CPU tensor, over its extent in memory."""
    if hasattr(array, "base") and hasattr(array, "data_ptr") and not hasattr(array, "untyped_storage"):
        array = array.base
    if isinstance(array, np.ndarray):
        low, high = np.lib.array_utils.byte_bounds(array)
        return (low, high - low, array.itemsize) if array.size else (array.ctypes.data, 0, array.itemsize)
    if hasattr(array, "data_ptr") and hasattr(array, "stride"):
        if getattr(getattr(array, "device", None), "type", "cpu") != "cpu":
            raise SimulatorMisuse(f"argument {name!r} is on {array.device}; the simulator works on CPU tensors",
                                  hint="pass tensor.cpu()")
        extents = [(size - 1) * stride for size, stride in zip(array.shape, array.stride())]
        elements = 1 + sum(extents) if all(array.shape) else 0
        return array.data_ptr(), elements * array.dtype.itemsize, array.dtype.itemsize
    raise SimulatorMisuse(f"argument {name!r} should be a numpy array or a torch CPU tensor, not a "
                          f"{type(array).__name__}")


def _writable(array: Any) -> bool:
    """False for numpy arrays that may only be read: memory-mapped files of mode "r", views of `bytes`, broadcasts."""
    flags = getattr(getattr(array, "array", array), "flags", None)
    return getattr(flags, "writeable", True)


@dataclass(frozen=True)
class Multicast:
    """Addresses of all ranks at once: `size` bytes from `start` on, which stand for those of each heap."""

    start: int
    size: int
    heaps: tuple[int, ...]

    def holds(self, addresses) -> bool:
        """True if all of these are such addresses."""
        inside = np.asarray(addresses, np.uint64) - np.uint64(self.start)
        return bool((inside < np.uint64(self.size)).all())

    def at_ranks(self, addresses: np.ndarray) -> list[np.ndarray]:
        """The addresses that they stand for, at each rank."""
        inside = addresses - np.uint64(self.start)
        return [inside + np.uint64(heap) for heap in self.heaps]


class GlobalMemory:
    """All regions of a launch that one GPU reaches, and reads and writes by address. `rank` is whose memory this is, where there
    are several GPUs; `foreign` are the regions of the others, reached or not; `multicast` says where an address of all ranks leads,
    where there are such."""

    def __init__(self, rank: int | None = None):
        self.regions: list[Region] = []
        self.rank, self.foreign, self.multicast = rank, [], None

    def register(self, array: Any, name: str, given: bool = True) -> int:
        """Make an array reachable; returns its address. An array that is registered twice keeps its first name. `given`: it is an
        argument."""
        (start, size, item), writable = describe(array, name), _writable(array)
        if not any(region.start == start and region.size >= size and region.writable >= writable for region in self.regions):
            self.regions.append(Region(name, start, size, item, array, writable, self.rank, given=given))
        return array.data_ptr() if hasattr(array, "data_ptr") else array.ctypes.data

    def region(self, low: int, high: int, what: str = "reads") -> Region | None:
        """The region that holds the bytes [low, high), and may be written if that is `what` is done."""
        for region in self.regions:
            if region.start <= low and high <= region.end and (region.writable or what != "writes"):
                return region
        return None

    def outside(self, address: int, size: int, task, op, what: str) -> SimulationError:
        """The error for bytes that are in no region, or in none that may be written."""
        held = self.region(address, address + size) if what == "writes" else None
        if held is not None and not held.writable and self.region(address, address + size, what) is None:
            return SimulatorMisuse(f"{task.where}: {op.name} writes {held.label}, which is a read-only array", op.site,
                                   hint="pass an array that may be written: array.copy(), or np.memmap(..., mode='r+')")
        where = f"{task.where}: {op.name} {what} address {address:#x}"
        if self.multicast is not None and self.multicast.holds(address):
            return SimulatorMisuse(f"{where}, which is one of all ranks at once: on a GPU that is undefined", op.site,
                                   hint="use the multimem functions, or tlx.peer_pointer for the memory of one rank")
        if not self.regions:
            return OutOfBounds(f"{where}, but the launch has no array", op.site)
        for region in self.foreign:
            if region.start <= address and address + size <= region.end and region not in self.regions:
                return PeerUnreachable(f"{where}, in {region.label}: an array of another GPU that is not symmetric", op.site,
                                       hint="make it by World.symmetric, and find a peer's copy by peer_pointer or tle.remote")
        near = min(self.regions, key=lambda region: max(region.start - address, address + size - region.end, 0))
        if near.start <= address and address + size <= near.end:
            return OutOfBounds(f"{where}, which is not a multiple of the element's {size} bytes", op.site)
        offset = (address - near.start) / near.item
        offset = int(offset) if offset.is_integer() else offset
        elements = near.size // near.item
        further = _BY_ADDRESS if makes_pointers(task.machine.program) else ""
        return OutOfBounds(f"{where}: element {offset} of {near.told}, which has {elements} elements{named(task, op)}", op.site,
                           hint=f"mask the access or enlarge the array{further}")

    def name_at(self, address: int) -> str:
        """The array at an address, for messages."""
        region = self.region(address, address + 1)
        return region.label if region else "global memory"

    def named(self, address: int) -> str:
        """The element at an address, for messages: 'flags'[3] of rank 1."""
        region = self.region(address, address + 1)
        if region is None:
            return f"the word at {address:#x}"
        whose = "" if region.rank is None else f" of rank {region.rank}"
        name = repr(region.name) if region.given else region.name
        return f"{name}[{(address - region.start) // region.item}]{whose}"

    def touch(self, actor, op, addresses, mask, size: int, *, write: bool, atomic=None) -> None:
        """Note an access of `actor` to the elements of `size` bytes at `addresses`; `atomic` holds its order and scope."""
        machine = actor.machine
        writers = machine.hooks.writers if write else None
        if not machine.order.active and machine.links is None and writers is None:
            return
        flat, shape = np.asarray(addresses, np.uint64).reshape(-1), np.shape(addresses)
        taken = None if mask is None else np.broadcast_to(mask, shape).reshape(-1)
        if taken is not None:
            flat = flat[taken]
        if not flat.size:
            return
        for region, inside in self.parts(flat, size, actor.task, op, "writes" if write else "reads"):
            offsets = (flat[inside] - np.uint64(region.start)).astype(np.int64)
            name = region.label
            if writers is not None:
                writers.elements(actor, op, region, offsets, size, atomic is not None)
            if machine.order.halves:
                elements = (np.arange(flat.size) if taken is None else np.flatnonzero(taken))[inside]
                machine.order.among_halves_far(actor, op, region.bytes, offsets, elements, shape, size, name, write=write,
                                               scope="" if atomic is None else atomic["scope"])
            if machine.links is not None:
                machine.links.crosses(actor, op, region.rank, offsets.size * size, write=write)
            if atomic is None:
                machine.order.scatter(actor, op, region.bytes, offsets, size, name, write=write)
            else:
                machine.order.atomic(actor, op, region.bytes, offsets, size, name, write=write, **atomic)

    def touch_box(self, actor, op, address: int, like: np.ndarray, *, write: bool) -> None:
        """Note an access of `actor`, in the asynchronous proxy, to consecutive elements as many as `like` has."""
        if actor.machine.links is not None:
            region = self.region(address, address + like.nbytes)
            actor.machine.links.crosses(actor, op, region and region.rank, like.nbytes, write=write)
        if write and (writers := actor.machine.hooks.writers) is not None:
            part = self.box(address, like.shape, (1, ), like.dtype, actor.task, op, "writes")
            writers.box(actor, op, self.region(address, address + like.nbytes), part, False)
        if actor.machine.order.active:
            order, part = actor.machine.order, self.box(address, like.shape, (1, ), like.dtype, actor.task, op, "reaches")
            order.touch(actor, op, order.place(part), self.name_at(address), write=write, proxy="async", space="global")

    def parts(self, addresses: np.ndarray, size: int, task, op, what: str):
        """(region, selection) pairs that cover `addresses`; one pair if, as nearly always, one region has them all."""
        low, high = int(addresses.min()), int(addresses.max()) + size
        region = self.region(low, high, what)
        if region is not None:
            self._check_aligned(region, addresses, size, task, op, what)
            return [(region, slice(None))]
        parts, left = [], np.ones(addresses.shape, bool)
        for region in self.regions:
            if what == "writes" and not region.writable:
                continue
            inside = left & (addresses >= region.start) & (addresses + np.uint64(size) <= region.end)
            if inside.any():
                self._check_aligned(region, addresses[inside], size, task, op, what)
                parts.append((region, inside))
                left &= ~inside
        if left.any():
            raise self.outside(int(addresses[left][0]), size, task, op, what)
        return parts

    def _check_aligned(self, region: Region, addresses: np.ndarray, size: int, task, op, what: str) -> None:
        """Raise the error for the first address between two elements."""
        if size == 1:
            return
        off = (addresses - np.uint64(region.start)) & np.uint64(size - 1)
        if np.bitwise_or.reduce(off):
            raise self.outside(int(addresses[off != 0][0]), size, task, op, what)

    def read(self, addresses, mask, dtype: np.dtype, other, task, op):
        """Elements at `addresses` (uint64) where `mask` (None is all) holds, `other` (None is 0) elsewhere."""
        shape = np.shape(addresses)
        if not shape and mask is None:
            return self.cell(int(addresses), dtype, task, op, "reads")[()]
        flat = np.asarray(addresses).reshape(-1)
        on = None if mask is None else np.broadcast_to(mask, shape).reshape(-1)
        if on is not None and not on.all():
            result = np.full(shape, 0 if other is None else other, dtype).reshape(-1)
            if on.any():
                result[on] = self._read(flat[on], dtype, task, op)
        else:
            result = self._read(flat, dtype, task, op)
        return result.reshape(shape)[()]

    def cell(self, address: int, dtype: np.dtype, task, op, what: str) -> np.ndarray:
        """The one element at `address`, to be read or written."""
        size = dtype.itemsize
        region = self.region(address, address + size, what)
        if region is None or (address - region.start) % size:
            raise self.outside(address, size, task, op, what)
        index = (address - region.start) // size
        return region.view(dtype)[index:index + 1].reshape(())

    def _read(self, flat: np.ndarray, dtype: np.dtype, task, op) -> np.ndarray:
        parts = self.parts(flat, dtype.itemsize, task, op, "reads")
        shift = np.uint64(dtype.itemsize.bit_length() - 1)
        if len(parts) == 1:
            region = parts[0][0]
            return region.view(dtype)[(flat - np.uint64(region.start)) >> shift]
        result = np.empty(flat.shape, dtype)
        for region, inside in parts:
            result[inside] = region.view(dtype)[(flat[inside] - np.uint64(region.start)) >> shift]
        return result

    def write(self, addresses, value, mask, task, op) -> None:
        """Write `value` at `addresses` where `mask` (None is all) holds; of equal addresses the last wins."""
        shape = np.shape(addresses)
        if not shape and mask is None:
            self.cell(int(addresses), value.dtype, task, op, "writes")[...] = value
            return
        flat = np.asarray(addresses).reshape(-1)
        data = np.broadcast_to(value, shape).reshape(-1)
        if mask is not None:
            on = np.broadcast_to(mask, shape).reshape(-1)
            if not on.all():
                flat, data = flat[on], data[on]
        if not flat.size:
            return
        shift = np.uint64(data.dtype.itemsize.bit_length() - 1)
        for region, inside in self.parts(flat, data.dtype.itemsize, task, op, "writes"):
            region.view(data.dtype)[(flat[inside] - np.uint64(region.start)) >> shift] = data[inside]

    def box(self, address: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype, task, op, what: str):
        """A strided box of memory as a numpy view. `strides` are in elements and may not be negative."""
        extent = sum((size - 1) * stride for size, stride in zip(shape, strides)) + 1
        region = self.region(address, address + extent * dtype.itemsize, what)
        if region is None:
            outside = address if self.region(address, address + dtype.itemsize, what) is None else \
                address + (extent - 1) * dtype.itemsize
            raise self.outside(outside, dtype.itemsize, task, op, what)
        return np.ndarray(shape, dtype, region.bytes, address - region.start,
                          tuple(stride * dtype.itemsize for stride in strides))
