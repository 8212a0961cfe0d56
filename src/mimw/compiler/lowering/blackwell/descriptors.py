"""Memory descriptors of tensor memory, and parts of the one allocation.

Input: an element, a shape, a `Placement`. Output: Triton's types and views:

    part(emitter, storage, 256, 64, buffer<fp16[128, 128]>)       columns 256 to 319 as a buffer
"""

from __future__ import annotations

from ....ir import Buffer
from ....ir.layouts import TensorMemory
from ....ir.tensor_memory import LANES, layout_of
from ....ir.types import I32
from ..emitter import Emitter, Placement


def part(emitter: Emitter, storage, offset: int, columns: int, type_: Buffer, total: int = 0):
    """The columns [offset, offset + columns) of the allocation, or of a part of it that has `total`, as one buffer of `type_`."""
    total = total or emitter.tensor_columns
    whole = Placement(TensorMemory(LANES, total), (LANES, total))
    part = emitter.builder.create_tmem_subslice(memory_type(emitter, I32, (LANES, columns), whole), storage, offset, 1)
    one = memory_type(emitter, type_.element, type_.shape, Placement(layout_of(type_), type_.shape))
    return emitter.builder.create_memdesc_reinterpret(one, part)


def memory_type(emitter: Emitter, element, shape, placement: Placement, allocated=None):
    """The type of a memory descriptor of tensor memory."""
    builder = emitter.builder
    return builder.get_tensor_mem_desc_ty(emitter.types.element(element), list(shape), emitter.types.attribute(placement.layout),
                                          list(placement.allocated if allocated is None else allocated))
