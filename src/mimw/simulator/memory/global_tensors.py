"""Tensors in global memory as TMA descriptors see them: blocks, padded where they reach over the tensor's edge.

Input: a descriptor's fields; then offsets of a block. Output: the block's elements, read or written. For example:

    tensor.read(memory, [0, 64], task, op)      a block; elements outside of the tensor are 0 or NaN, whatever lies there
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from ...compiler.triton_port.interpreter import round_f32_to_tf32
from ..memory_model import ASYNC, GENERIC
from ..memory_model.shadow import address_of
from .descriptor_places import DescriptorPlace
from .global_memory import GlobalMemory
from .pixel_boxes import PixelBox

PARTS = 4096        # blocks of a tensor that are remembered
GRANULE = 16        # bytes of a row that TMA writes at least
ADDRESSES = 1 << 64     # TMA adds up addresses in 64 bits: what goes past the end comes round


def by_tma(op) -> bool:
    """True if TMA does the op's access by a descriptor: not pointers, nor AMD's data mover."""
    return not (op.attrs.get("by_pointers") or by_mover(op))


def by_mover(op) -> bool:
    """True if AMD's tensor data mover does the op's access: `tensor_load_to_lds`, `tensor_store_from_lds`."""
    return "mover" in op.row.traits or bool(op.attrs.get("by_mover"))


@dataclass(eq=False, slots=True)
class Part:
    """The part of a block that lies in the tensor: where that is in the block, the memory it stands for, and, once it has been
    touched, its place in the order of accesses and what it is called."""

    inside: tuple[slice, ...]
    data: np.ndarray
    place: Any = None
    name: str = ""


@dataclass(frozen=True, eq=False)
class GlobalTensor:
    """A descriptor at run time. `shape` and `strides` in elements, the last stride 1; `rounds`: fp32 reads as tf32; by one that is
    not `on` nothing is copied."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    block: tuple[int, ...]
    dtype: np.dtype
    signed: bool
    nan: bool
    rounds: bool = False
    lies: DescriptorPlace | None = None     # where the descriptor itself lies, if the kernel made it
    on: bool = True
    pixels: PixelBox | None = None          # of a descriptor in im2col mode
    _parts: dict[tuple, Part | None] = field(default_factory=dict, init=False, repr=False)

    def placed(self, add, bounds, on: bool | None, clamp: bool) -> GlobalTensor:
        """The descriptor `add` elements further, as AMD's `amdg.update_tensor_descriptor` has it: its shape is what lies behind the
        new place if that is to be clamped, nothing along a dimension with a negative step, and else stays, or is `bounds`."""
        steps = tuple(add) or (0, ) * len(self.shape)
        shape = tuple(bounds) or self.shape
        if clamp:
            shape = tuple(max(extent - step, 0) if step >= 0 else 0 for extent, step in zip(shape, steps))
        moved = sum(step * stride for step, stride in zip(steps, self.strides)) * self.dtype.itemsize
        return replace(self, address=(self.address + moved) % ADDRESSES, shape=shape, on=self.on if on is None else on)

    def read(self, memory: GlobalMemory, offsets, task, op, block=None) -> np.ndarray:
        """The block at `offsets`, padded; maybe a view of the memory."""
        block = block or self.block
        part = self.part(memory, offsets, block, task, op, "reads")
        if part is not None:
            data = round_f32_to_tf32(part.data) if self.rounds else part.data
            if data.shape == block:
                return data
        result = np.full(block, np.nan if self.nan else 0, self.dtype)
        if part is not None:
            result[part.inside] = data
        return result

    def write(self, memory: GlobalMemory, offsets, tile: np.ndarray, reduce: str, task, op, block=None) -> None:
        """Write the part of `tile` that is inside; with `reduce`, combine it with what is there. TMA writes whole 16 bytes of a
        row: what lies behind one that ends within them is overwritten, too (seen on an H100, in stores and reductions)."""
        part = self.part(memory, offsets, block or self.block, task, op, "writes")
        if part is not None:
            new = tile[part.inside]
            part.data[...] = combine(reduce, part.data, new, self.signed) if reduce else new

    def touch(self, actor, op, memory: GlobalMemory, offsets, *, write: bool, scope: str = "", block=None) -> None:
        """Note an access to what lies inside; `scope` for one that combines atomically."""
        order, links = actor.machine.order, actor.machine.links
        if links is not None and (part := self.part(memory, offsets, block or self.block, actor.task, op, "reaches")) is not None:
            region = memory.region(address_of(part.data), address_of(part.data) + 1)
            links.crosses(actor, op, region and region.rank, part.data.nbytes, write=write)
        if write and (writers := actor.machine.hooks.writers) is not None:
            part = self.part(memory, offsets, block or self.block, actor.task, op, "writes")
            if part is not None:
                address = address_of(part.data)
                writers.box(actor, op, memory.region(address, address + 1), part.data, bool(scope))
        if order.active:
            if self.lies is not None:
                self.lies.touch(actor, op, write=False)
            part = self.part(memory, offsets, block or self.block, actor.task, op, "writes" if write else "reaches")
            if part is not None:
                if part.place is None:
                    part.place, part.name = order.place(part.data), memory.name_at(address_of(part.data))
                proxy = ASYNC if by_tma(op) else GENERIC
                order.touch(actor, op, part.place, part.name, write=write, proxy=proxy, scope=scope, space="global")
                if order.halves:
                    self._among_halves(order, actor, op, memory, part, block or self.block, write=write, scope=scope)

    def _among_halves(self, order, actor, op, memory: GlobalMemory, part: Part, block, *, write: bool, scope: str) -> None:
        """Note the elements of a part one by one, by their places in the block."""
        at = np.array([address_of(part.data)])
        for extent, stride in zip(part.data.shape, part.data.strides):
            at = np.add.outer(at, stride * np.arange(extent)).reshape(-1)
        region = memory.region(int(at.min()), int(at.max()) + part.data.itemsize)
        elements = np.arange(prod(block)).reshape(block)[part.inside].reshape(-1)
        order.among_halves_far(actor, op, region.bytes, at - region.start, elements, block, part.data.itemsize, part.name,
                               write=write, scope=scope)

    def part(self, memory: GlobalMemory, offsets, block: tuple[int, ...], task, op, what: str) -> Part | None:
        """The part of the block at `offsets` that lies in the tensor; None if nothing does. A block may be read and not written."""
        key = (*offsets, block, what == "writes")
        try:
            return self._parts[key]
        except KeyError:
            if len(self._parts) >= PARTS:
                self._parts.clear()
            found = self._parts[key] = self._part(memory, offsets, block, task, op, what)
            return found

    def _part(self, memory: GlobalMemory, offsets, block: tuple[int, ...], task, op, what: str) -> Part | None:
        found = _inside(tuple(offsets), block, self.shape, self.strides)
        if found is None or by_mover(op) and min(offsets) < 0:
            return None
        if what == "writes" and by_tma(op) and self.shape[-1] * self.dtype.itemsize % GRANULE:
            found = self._in_granules(memory, tuple(offsets), block) or found
        inside, start, shape = found
        address = (self.address + start * self.dtype.itemsize) % ADDRESSES
        return Part(inside, memory.box(address, shape, self.strides, self.dtype, task, op, what))

    def _in_granules(self, memory: GlobalMemory, offsets: tuple[int, ...], block: tuple[int, ...]):
        """The part that is written, up to the end of the last granule of each row; None if no array reaches as far."""
        size = self.dtype.itemsize
        found = _inside(offsets, block, (*self.shape[:-1], -(-self.shape[-1] * size // GRANULE) * GRANULE // size), self.strides)
        _, start, shape = found
        address = (self.address + start * size) % ADDRESSES
        extent = sum((count - 1) * stride for count, stride in zip(shape, self.strides)) + 1
        return found if memory.region(address, address + extent * size, "writes") is not None else None


@lru_cache(4 * PARTS)
def _inside(offsets: tuple[int, ...], block: tuple[int, ...], extents: tuple[int, ...], strides: tuple[int, ...]):
    """(where in the block, its first element in the tensor, its shape) of the part of a block that lies in a tensor; or None."""
    low = [max(0, -offset) for offset in offsets]
    high = [min(size, extent - offset) for size, extent, offset in zip(block, extents, offsets)]
    if any(first >= last for first, last in zip(low, high)):
        return None
    start = sum((offset + first) * stride for offset, first, stride in zip(offsets, low, strides))
    return tuple(map(slice, low, high)), start, tuple(last - first for first, last in zip(low, high))


REDUCTIONS = {"add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
          "xor": np.bitwise_xor}


def combine(kind: str, old: np.ndarray, new: np.ndarray, signed: bool) -> np.ndarray:
    """TMA's reduction `kind` of memory and tile; integers compare as `signed` says."""
    if kind in ("min", "max") and not signed and old.dtype.kind == "i":
        unsigned = f"u{old.dtype.itemsize}"
        return REDUCTIONS[kind](old.view(unsigned), np.ascontiguousarray(new).view(unsigned)).view(old.dtype)
    return REDUCTIONS[kind](old, new)


