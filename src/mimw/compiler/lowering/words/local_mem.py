"""Buffers: allocation, register loads and stores.

Input: an op on a buffer. Output: Triton's ops on shared memory:

    %x = local_load %tile        ttg.local_load %tile : tensor<128x64xbf16, the solved layout>
"""

from __future__ import annotations

from ....ir import Op
from ..anchor import anchored
from ..blackwell import tensor_memory
from ..emitter import Emitter, Placement, emits
from ..nvidia.masked_store import masked_store
from ..types import lifted
from . import pieces
from .aliases import array_in_storage, bytes_for


@emits("local_alloc")
def local_alloc(emitter: Emitter, op: Op):
    if op.type.space == tensor_memory.SPACE:
        return tensor_memory.array(emitter, op)
    if "place" in op.attrs:
        value, emitter.placed[op.result] = array_in_storage(emitter, op)
        return value
    type_, layout = op.type, emitter.layouts.shared[op.result]
    emitter.placed[op.result] = Placement(layout, type_.shape)
    shape = (type_.count, *type_.shape) if type_.count else type_.shape
    array = emitter.types.buffer(type_.element, shape, lifted(layout, len(type_.shape)))
    alignment = emitter.layouts.alignments.get(op.result, 0)
    if alignment > getattr(layout, "begins", 0):
        return emitter.builder.create_memdesc_reinterpret(array, bytes_for(emitter, type_.bytes, alignment))
    return emitter.allocate(array)


@emits("local_free")
def local_free(emitter: Emitter, op: Op):
    emitter.free(emitter.of(op.buffer))


@emits("local_load")
def local_load(emitter: Emitter, op: Op):
    """A masked one reads the whole view, in wide pieces; the `select` behind it drops what stands where the mask is false."""
    if op.attrs.get("pieces"):
        return pieces.load(emitter, op)
    loaded = emitter.builder.create_local_load(emitter.mlir_type(op.result), emitter.of(op.buffer))
    if op.attrs.get("layout") is None:
        return loaded
    return anchored(emitter, loaded, op.result.type, emitter.layouts.registers[op.result])


@emits("local_gather")
def local_gather(emitter: Emitter, op: Op):
    """Read a buffer at indices. Where the mask of a gather is false, the index is one inside the buffer, and a `select` drops
    the value."""
    return emitter.builder.create_local_gather(emitter.mlir_type(op.result), emitter.of(op.buffer),
                                               emitter.operand(op, "indices"), op.axis)


@emits("local_scatter")
def local_scatter(emitter: Emitter, op: Op):
    emitter.builder.create_local_scatter(emitter.of(op.buffer), emitter.operand(op, "value"), emitter.operand(op, "indices"),
                                         op.axis)


@emits("local_store")
def local_store(emitter: Emitter, op: Op):
    """Store a tile. A trial lowering stores without the mask, to see the layout that Triton's passes give the tile."""
    if op.attrs.get("pieces"):
        pieces.store(emitter, op)
        return
    if op.mask is not None and not emitter.trial:
        masked_store(emitter, op)
        return
    emitter.builder.create_local_store(emitter.of(op.buffer), emitter.operand(op, "value"))
