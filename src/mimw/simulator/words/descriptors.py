"""TMA descriptors: a tensor in global memory seen in blocks, and the synchronous accesses of `tl`'s descriptors.

Elements outside the tensor read as the padding (0 or NaN) and are not written, whatever lies at their addresses.
"""

from __future__ import annotations

import numpy as np

from ...errors import SimulatorMisuse, fail
from ..machine.operands import offsets_of
from ..machine.table import handles
from ..memory.global_tensors import REDUCTIONS, GlobalTensor
from ..memory.values import numpy_type


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
    if name not in REDUCTIONS:
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
