"""Storage that buffer arrays share: one allocation of bytes, and arrays as views of parts of it.

Because all arrays come from one allocation, Triton's analysis of hazards sees a write through one and a read through another
as touching the same memory, and puts the barrier between them.

Input: `alias_storage`, and `local_alloc` and `buffer_index` of arrays with a place in one. Output: an allocation, and views of it:

    %q = local_alloc {place: bytes 0 to 8191} %storage        ttg.memdesc_reinterpret of ttg.memdesc_subslice %storage[0, 0]
"""

from __future__ import annotations

from math import gcd

from ....ir import Op, Place
from ....ir.layouts import SwizzledShared
from ...triton_port.builder import bytes_layout
from ...triton_port.differences import OLDER
from ..blackwell import tensor_memory
from ..choice import chosen
from ..emitter import Emitter, Placement, emits
from ..types import lifted

_UNIT = 16  # bytes in which storage is counted out
_BYTES = SwizzledShared(1, 1, 1, (0, ))


@emits("alias_storage")
def alias_storage(emitter: Emitter, op: Op):
    if op.space == tensor_memory.SPACE:
        return tensor_memory.backing(emitter, op)
    emitter.storage_bytes[op.result] = -(-op.attrs["bytes"] // _UNIT) * _UNIT
    return bytes_for(emitter, op.attrs["bytes"], op.attrs["alignment"])


def bytes_for(emitter: Emitter, size: int, alignment: int):
    """An allocation of at least `size` bytes that starts at a multiple of `alignment`."""
    layout, shape = bytes_layout(_UNIT, alignment)._to_ir(emitter.builder), [-(-size // _UNIT), _UNIT]
    return emitter.allocate(
        emitter.builder.get_shared_mem_desc_ty(emitter.builder.get_int8_ty(), shape, layout, shape))


def array_in_storage(emitter: Emitter, op: Op):
    """The MLIR value of an array in a storage, and its placement.

    Where the buffers' starts are a whole number of buffers apart, it is an array with gaps that `buffer_index` steps over; else
    it is the storage itself, of which `buffer_index` picks one of the windows.
    """
    type_, place, storage = op.result.type, op.attrs["place"], op.reuse
    layout = emitter.layouts.shared[op.result]
    if place.is_contiguous or place.stride % place.size == 0:
        window = _bytes_of(emitter, emitter.of(storage), emitter.storage_bytes[storage], place.offset, place.span * place.size)
        array = emitter.types.buffer(type_.element, (place.span, *type_.shape), lifted(layout, len(type_.shape)))
        return (emitter.builder.create_memdesc_reinterpret(array, window),
                Placement(layout, type_.shape, None if place.is_contiguous else place))
    return emitter.of(storage), Placement(layout, type_.shape, place, emitter.storage_bytes[storage])


def buffer_in_storage(emitter: Emitter, op: Op):
    """One buffer of an array whose buffers do not simply follow each other."""
    placement, builder = emitter.placed[op.buffer], emitter.builder
    place: Place = placement.place
    view = emitter.types.view(op.result.type, Placement(placement.layout, placement.allocated))
    if placement.storage_bytes:

        def window(number: int):
            part = _bytes_of(emitter, emitter.of(op.buffer), placement.storage_bytes, place.start(number), place.size)
            return builder.create_memdesc_reinterpret(view, part)

        return chosen(emitter, op.index, place.count, window)
    number, group = emitter.of(op.index), place.group_size
    slot = number if group == 1 else builder.create_sdiv(number, builder.get_int32(group))
    step = builder.create_mul(slot, builder.get_int32(place.stride // place.size))
    if group > 1:
        step = builder.create_add(step, builder.create_srem(number, builder.get_int32(group)))
    return builder.create_memdesc_index(view, emitter.of(op.buffer), step)


def _bytes_of(emitter: Emitter, storage, total: int, offset: int, size: int):
    """The bytes [offset, offset + size) of a storage's MLIR value."""
    builder, unit = emitter.builder, gcd(offset, size, _UNIT)

    def bytes_type(count: int, allocated: int):
        return builder.get_shared_mem_desc_ty(builder.get_int8_ty(), [count, unit], emitter.types.attribute(_BYTES),
                                              [allocated, unit])

    if OLDER:
        return builder.window(storage, total, offset, size, emitter.types.attribute(_BYTES))
    whole = builder.create_memdesc_reinterpret(bytes_type(total // unit, total // unit), storage)
    return builder.create_memdesc_subslice(bytes_type(size // unit, total // unit), whole, [offset // unit, 0])
