"""TMA descriptors made in the kernel, and the synchronous accesses of `tl`'s descriptors.

Input: a task at an op of `ir/ops/descriptors.py`. Output: a descriptor, a tile, or memory that is written. For example:

    %tile = descriptor_load %descriptor (%row, %column)      the block there, padded with 0 or NaN outside of the tensor
"""

from __future__ import annotations

from ...errors import SimulatorMisuse, fail
from ..machine.operands import offsets_of
from ..machine.table import handles
from ..memory.descriptor_places import DescriptorPlace, own_place
from ..memory.global_tensors import REDUCTIONS, GlobalTensor
from ..memory.values import numpy_type


@handles("make_tensor_descriptor")
def make_tensor_descriptor(task, op):
    task.env[op.result] = described(task, op, own_place(task, op))


def described(task, op, place: DescriptorPlace) -> GlobalTensor:
    """The descriptor that `op` makes of its operands `base`, `shape`, `strides` and `padding`, in its place."""
    type_ = op.result.type
    dtype = numpy_type(type_.element, op.site)
    steps = tuple(offsets_of(task, op, op.strides))
    if steps[-1] != 1:
        raise fail(SimulatorMisuse, task, op, f"the last stride of a tensor descriptor is {steps[-1]}; it must be 1")
    for stride in steps[:-1]:
        if stride * dtype.itemsize % 16:
            raise fail(SimulatorMisuse, task, op, f"a stride of {stride} elements is {stride * dtype.itemsize} bytes; TMA takes "
                       "multiples of 16")
    address = int(task.read(op.base, op))
    if address % 16:
        raise fail(SimulatorMisuse, task, op, f"the base address {address:#x} is no multiple of 16 bytes, as TMA wants it")
    place.touch(task, op, write=True)
    return GlobalTensor(address, tuple(offsets_of(task, op, op.shape)), steps, type_.shape, dtype, type_.signed,
                        "nan" in str(op.padding).lower(), lies=place)


@handles("descriptor_load")
def descriptor_load(task, op):
    descriptor, offsets = task.env[op.descriptor], offsets_of(task, op, op.offsets)
    descriptor.touch(task, op, task.memory, offsets, write=False)
    task.env[op.result] = descriptor.read(task.memory, offsets, task, op).copy()


@handles("descriptor_store")
def descriptor_store(task, op):
    descriptor, tile = task.env[op.descriptor], task.read(op.value, op)
    task.machine.wrote()
    offsets = offsets_of(task, op, op.offsets)
    descriptor.touch(task, op, task.memory, offsets, write=True)
    descriptor.write(task.memory, offsets, tile, "", task, op)


@handles("descriptor_reduce", switches=True)
def descriptor_reduce(task, op):
    kind, descriptor, tile = op.kind, task.env[op.descriptor], task.read(op.value, op)
    name = getattr(kind, "name", str(kind)).lower()
    if name not in REDUCTIONS:
        raise fail(SimulatorMisuse, task, op, f"the simulator does not know the descriptor reduction {name!r}")
    task.machine.wrote()
    offsets = offsets_of(task, op, op.offsets)
    descriptor.touch(task, op, task.memory, offsets, write=True, scope="gpu")
    descriptor.write(task.memory, offsets, tile, name, task, op)
