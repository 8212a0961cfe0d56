"""Tensors in global memory as TMA descriptors see them: blocks, padded where they reach over the tensor's edge.

Input: a descriptor's fields; then offsets of a block. Output: the block's elements, read or written. For example:

    tensor.read(memory, [0, 64], task, op)      a block; elements outside of the tensor are 0 or NaN, whatever lies there
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...memory_model import ASYNC
from ...memory_model.shadow import address_of
from ...triton_port.interpreter import round_f32_to_tf32
from .global_memory import GlobalMemory


@dataclass(frozen=True, eq=False)
class GlobalTensor:
    """What a descriptor says at run time. `shape` and `strides` in elements, the last stride 1; `rounds`: fp32 reads as tf32."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    block: tuple[int, ...]
    dtype: np.dtype
    signed: bool
    nan: bool
    rounds: bool = False

    def read(self, memory: GlobalMemory, offsets, task, op, block=None) -> np.ndarray:
        """The block at `offsets`, padded."""
        block = block or self.block
        fill = np.nan if self.nan else 0
        inside, part = self.part_inside(memory, offsets, block, task, op, "reads")
        if part is None:
            return np.full(block, fill, self.dtype)
        part = round_f32_to_tf32(part) if self.rounds else part
        if part.shape == tuple(block):
            return part.copy()
        result = np.full(block, fill, self.dtype)
        result[inside] = part
        return result

    def write(self, memory: GlobalMemory, offsets, tile: np.ndarray, reduce: str, task, op, block=None) -> None:
        """Write the part of `tile` that is inside; with `reduce`, combine it with what is there."""
        inside, part = self.part_inside(memory, offsets, block or self.block, task, op, "writes")
        if part is not None:
            part[...] = combine(reduce, part, tile[inside], self.signed) if reduce else tile[inside]

    def touch(self, actor, op, memory: GlobalMemory, offsets, *, write: bool, scope: str = "", block=None) -> None:
        """Note an access to what lies inside; `scope` for one that combines atomically."""
        order = actor.machine.order
        if order.active:
            _, part = self.part_inside(memory, offsets, block or self.block, actor.task, op, "reaches")
            if part is not None:
                name = memory.name_at(address_of(part))
                order.touch(actor, op, part, name, write=write, proxy=ASYNC, scope=scope, space="global")

    def part_inside(self, memory, offsets, block, task, op, what):
        """(where in the block, the memory it stands for) of the part of the block that lies in the tensor."""
        low = [max(0, -offset) for offset in offsets]
        high = [min(size, extent - offset) for size, extent, offset in zip(block, self.shape, offsets)]
        if any(first >= last for first, last in zip(low, high)):
            return None, None
        start = sum((offset + first) * stride for offset, first, stride in zip(offsets, low, self.strides))
        shape = tuple(last - first for first, last in zip(low, high))
        part = memory.box(self.address + start * self.dtype.itemsize, shape, self.strides, self.dtype, task, op, what)
        return tuple(slice(first, last) for first, last in zip(low, high)), part


REDUCTIONS = {"add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
          "xor": np.bitwise_xor}


def combine(kind: str, old: np.ndarray, new: np.ndarray, signed: bool) -> np.ndarray:
    """TMA's reduction `kind` of memory and tile; integers compare as `signed` says."""
    if kind in ("min", "max") and not signed and old.dtype.kind == "i":
        unsigned = f"u{old.dtype.itemsize}"
        return REDUCTIONS[kind](old.view(unsigned), np.ascontiguousarray(new).view(unsigned)).view(old.dtype)
    return REDUCTIONS[kind](old, new)


