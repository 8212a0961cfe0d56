"""Accesses to picked elements of a flat buffer: masked stores and atomics, each logical element once.

Triton's scatter and atomics take any layout of the buffer, are seen by its barrier insertion, and leave replicated lanes out.
"""

from __future__ import annotations

from ..constraints.byte_maps import byte_map
from ..errors import NotYet
from ..ir import Op
from ..ir.layouts import LinearShared, NvmmaShared, SwizzledShared
from ..triton_port.builder import mlir
from .emitter import Emitter, emits


@emits("buffer_flat")
def buffer_flat(emitter: Emitter, op: Op):
    """An array is seen through the inverse of the map that says where each element lies."""
    source = op.args[0]
    if not source.type.count:
        return emitter.builder.create_memdesc_reshape(emitter.values[source], list(op.result.type.shape))
    placement = emitter.placed[source]
    if placement.place is not None or source.type.count & (source.type.count - 1) or not isinstance(placement.layout, (NvmmaShared, SwizzledShared)):
        raise NotYet(f"not yet: pointers into the whole of {source.type} in {placement.layout}", op.site,
                     hint="take pointers into one of its buffers")
    size = source.type.element.bytes
    images = [offset // size for offset in byte_map(placement.layout, source.type)[(size - 1).bit_length():]]
    layout = LinearShared(tuple((number, ) for number in inverse(images)), max(16, getattr(placement.layout, "boundary", 16)))
    flat = emitter.types.buffer(source.type.element, (1 << len(images), ), layout)
    return emitter.builder.create_memdesc_reinterpret(flat, emitter.values[source])


def inverse(images: list[int]) -> list[int]:
    """The inverse of an XOR-linear map, both as the images of 1, 2, 4, .."""
    rows = [(image, 1 << bit) for bit, image in enumerate(images)]
    for bit in range(len(images)):
        pivot = next(row for row in range(bit, len(rows)) if rows[row][0] >> bit & 1)
        rows[bit], rows[pivot] = rows[pivot], rows[bit]
        rows = [(image ^ rows[bit][0], number ^ rows[bit][1]) if row != bit and image >> bit & 1 else (image, number)
                for row, (image, number) in enumerate(rows)]
    return [number for _, number in rows]


@emits("local_atomic_rmw")
def local_atomic_rmw(emitter: Emitter, op: Op):
    buffer, value, indices, *mask = emitter.operands(op)
    return emitter.builder.create_local_atomic_scatter_rmw(op.args[0], buffer, value, indices, mask[0] if mask else None, 0)


@emits("local_masked_scatter")
def local_masked_scatter(emitter: Emitter, op: Op):
    """An exchange whose result nobody uses."""
    buffer, value, indices, mask = emitter.operands(op)
    emitter.builder.create_local_atomic_scatter_rmw(mlir.ATOMIC_OP.XCHG, buffer, value, indices, mask, 0)
