"""TMA descriptors made in the kernel, and the synchronous accesses of `tl`'s descriptors.

Input: a task at an op of `ir/ops/descriptors.py`. Output: a descriptor, a tile, or memory that is written. For example:

    %tile = descriptor_load %descriptor (%row, %column)      the block there, padded with 0 or NaN outside of the tensor
    tma_prefetch %descriptor (%row, %column)                 nothing, but it begins where a load may
"""

from __future__ import annotations

from ...errors import SimulatorMisuse, fail
from ...ir import data_mover
from ...ir.tensor_map import tensor_problem
from ..machine.operands import enabled, offsets_of
from ..machine.table import handles
from ..memory.descriptor_places import DescriptorPlace, own_place
from ..memory.global_tensors import REDUCTIONS, GlobalTensor, by_mover, by_tma
from ..memory.values import numpy_type
from .copies import check_corner


@handles("make_tensor_descriptor")
def make_tensor_descriptor(task, op):
    task.env[op.result] = described(task, op, own_place(task, op))


def described(task, op, place: DescriptorPlace) -> GlobalTensor:
    """The descriptor that `op` makes of its operands `base`, `shape`, `strides` and `padding`, in its place."""
    type_ = op.result.type
    dtype = numpy_type(type_.element, op.site)
    shape, steps, address = (*(tuple(offsets_of(task, op, one)) for one in (op.shape, op.strides)), int(task.read(op.base, op)))
    # One with an extent of 0 may be made, if nobody copies by it: of copies `check_corner` looks at the extents.
    if by_mover(op):
        problem = data_mover.tensor_problem(shape, steps, len(type_.shape))
    elif by_tma(op):
        problem = tensor_problem(address, [max(extent, 1) for extent in shape], steps, len(type_.shape), dtype.itemsize)
    else:
        problem = None
    if problem is not None:
        raise fail(SimulatorMisuse, task, op, f"this tensor descriptor is invalid: {problem[0]}", hint=problem[1])
    place.touch(task, op, write=True)
    if by_mover(op):
        place = None        # copies go by what is in registers
    return GlobalTensor(address, shape, steps, type_.shape, dtype, type_.signed, "nan" in str(op.padding).lower(), lies=place)


@handles("descriptor_load")
def descriptor_load(task, op):
    descriptor, offsets = task.env[op.descriptor], offsets_of(task, op, op.offsets)
    check_corner(task, op, descriptor, offsets)
    descriptor.touch(task, op, task.memory, offsets, write=False)
    task.env[op.result] = descriptor.read(task.memory, offsets, task, op).copy()


@handles("tma_prefetch", switches=True)
def tma_prefetch(task, op):
    """There are no caches here."""
    if enabled(task, op, op.predicate):
        check_corner(task, op, task.env[op.descriptor], offsets_of(task, op, op.offsets))


@handles("descriptor_store")
def descriptor_store(task, op):
    descriptor, tile = task.env[op.descriptor], task.read(op.value, op)
    task.machine.wrote()
    offsets = offsets_of(task, op, op.offsets)
    check_corner(task, op, descriptor, offsets)
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
    check_corner(task, op, descriptor, offsets)
    descriptor.touch(task, op, task.memory, offsets, write=True, scope="gpu")
    descriptor.write(task.memory, offsets, tile, name, task, op)
