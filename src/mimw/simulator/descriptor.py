"""TMA descriptors: a tensor in global memory seen in blocks, and the synchronous accesses of `tl`'s descriptors.

Elements outside the tensor read as the padding (0 or NaN) and are not written, whatever lies at their addresses.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import SimulatorMisuse
from ..triton_port.interpreter import round_f32_to_tf32
from .memory import GlobalMemory
from .order import ASYNC
from .shadow import address_of
from .table import handles
from .tasks import fail
from .values import numpy_type


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
        inside, here = self._inside(memory, offsets, block, task, op, "reads")
        if here is None:
            return np.full(block, fill, self.dtype)
        here = round_f32_to_tf32(here) if self.rounds else here
        if here.shape == tuple(block):
            return here.copy()
        result = np.full(block, fill, self.dtype)
        result[inside] = here
        return result

    def write(self, memory: GlobalMemory, offsets, tile: np.ndarray, reduce: str, task, op, block=None) -> None:
        """Write the part of `tile` that is inside; with `reduce`, combine it with what is there."""
        inside, here = self._inside(memory, offsets, block or self.block, task, op, "writes")
        if here is not None:
            here[...] = combine(reduce, here, tile[inside], self.signed) if reduce else tile[inside]

    def touch(self, actor, op, memory: GlobalMemory, offsets, *, write: bool, scope: str = "", block=None) -> None:
        """Note an access to what lies inside; `scope` for one that combines atomically."""
        order = actor.machine.order
        if order.active:
            _, here = self._inside(memory, offsets, block or self.block, actor.task, op, "reaches")
            if here is not None:
                name = memory.name_at(address_of(here))
                order.touch(actor, op, here, name, write=write, proxy=ASYNC, scope=scope, space="global")

    def _inside(self, memory, offsets, block, task, op, what):
        """(where in the block, the memory it stands for) of the part of the block that lies in the tensor."""
        low = [max(0, -offset) for offset in offsets]
        high = [min(size, extent - offset) for size, extent, offset in zip(block, self.shape, offsets)]
        if any(first >= last for first, last in zip(low, high)):
            return None, None
        start = sum((offset + first) * stride for offset, first, stride in zip(offsets, low, self.strides))
        shape = tuple(last - first for first, last in zip(low, high))
        here = memory.box(self.address + start * self.dtype.itemsize, shape, self.strides, self.dtype, task, op, what)
        return tuple(slice(first, last) for first, last in zip(low, high)), here


_KINDS = {"add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
          "xor": np.bitwise_xor}


def combine(kind: str, old: np.ndarray, new: np.ndarray, signed: bool) -> np.ndarray:
    """TMA's reduction `kind` of memory and tile; integers compare as `signed` says."""
    if kind in ("min", "max") and not signed and old.dtype.kind == "i":
        unsigned = f"u{old.dtype.itemsize}"
        return _KINDS[kind](old.view(unsigned), np.ascontiguousarray(new).view(unsigned)).view(old.dtype)
    return _KINDS[kind](old, new)


def offsets_of(task, op, values) -> list[int]:
    """Run-time offsets as Python integers."""
    return [int(task.read(value, op)) for value in values]


@handles("make_tensor_descriptor")
def make_tensor_descriptor(task, op):
    base, shape, strides, _, _, padding = op.args
    task.env[op.result] = described(task, op, base, shape, strides, padding)


def described(task, op, base, shape, strides, padding) -> GlobalTensor:
    """The descriptor that `op` makes of its run-time arguments."""
    type_ = op.result.type
    dtype = numpy_type(type_.element, op.site)
    steps = tuple(offsets_of(task, op, strides))
    if steps[-1] != 1:
        raise fail(SimulatorMisuse, task, op, f"the last stride of a tensor descriptor is {steps[-1]}; it must be 1")
    for stride in steps[:-1]:
        if stride * dtype.itemsize % 16:
            raise fail(SimulatorMisuse, task, op, f"a stride of {stride} elements is {stride * dtype.itemsize} bytes; TMA takes "
                       "multiples of 16")
    address = int(task.read(base, op))
    if address % 16:
        raise fail(SimulatorMisuse, task, op, f"the base address {address:#x} is no multiple of 16 bytes, as TMA wants it")
    return GlobalTensor(address, tuple(offsets_of(task, op, shape)), steps, type_.shape, dtype, type_.signed,
                        "nan" in str(padding).lower())


@handles("descriptor_load")
def descriptor_load(task, op):
    descriptor, offsets = task.env[op.args[0]], offsets_of(task, op, op.args[1])
    descriptor.touch(task, op, task.machine.memory, offsets, write=False)
    task.env[op.result] = descriptor.read(task.machine.memory, offsets, task, op)


@handles("descriptor_store")
def descriptor_store(task, op):
    descriptor, tile = task.env[op.args[0]], task.read(op.args[1], op)
    task.machine.polls = 0
    offsets = offsets_of(task, op, op.args[2])
    descriptor.touch(task, op, task.machine.memory, offsets, write=True)
    descriptor.write(task.machine.memory, offsets, tile, "", task, op)


@handles("descriptor_reduce", switches=True)
def descriptor_reduce(task, op):
    kind, descriptor, tile = op.args[0], task.env[op.args[1]], task.read(op.args[2], op)
    name = getattr(kind, "name", str(kind)).lower()
    if name not in _KINDS:
        raise fail(SimulatorMisuse, task, op, f"the simulator does not know the descriptor reduction {name!r}")
    task.machine.polls = 0
    offsets = offsets_of(task, op, op.args[3])
    descriptor.touch(task, op, task.machine.memory, offsets, write=True, scope="gpu")
    descriptor.write(task.machine.memory, offsets, tile, name, task, op)


@handles("descriptor_gather")
def descriptor_gather(task, op):
    descriptor, rows, column = task.env[op.args[0]], task.read(op.args[1], op), int(task.read(op.args[2], op))
    block = (1, descriptor.block[-1])
    for row in rows:
        descriptor.touch(task, op, task.machine.memory, [int(row), column], write=False, block=block)
    parts = [descriptor.read(task.machine.memory, [int(row), column], task, op, block) for row in rows]
    task.env[op.result] = np.concatenate(parts)


@handles("descriptor_scatter")
def descriptor_scatter(task, op):
    descriptor, tile = task.env[op.args[0]], task.read(op.args[1], op)
    rows, column = task.read(op.args[2], op), int(task.read(op.args[3], op))
    task.machine.polls = 0
    block = (1, descriptor.block[-1])
    for index, row in enumerate(rows):
        descriptor.touch(task, op, task.machine.memory, [int(row), column], write=True, block=block)
        descriptor.write(task.machine.memory, [int(row), column], tile[index:index + 1], "", task, op, block)
