"""Buffers: allocation, views, register loads and stores."""

from __future__ import annotations

from ..errors import NotYet
from ..ir import Op, Value
from .emitter import Emitter, emits


@emits("local_alloc")
def local_alloc(emitter: Emitter, op: Op):
    type_ = op.args[0]
    shape = [type_.count, *type_.shape]
    return emitter.builder.create_local_alloc(emitter.types.buffer(type_.element, shape, emitter.layouts.shared[op.result]))


@emits("buffer_index")
def buffer_index(emitter: Emitter, op: Op):
    buffer, index = emitter.operands(op)
    layout = emitter.shared_layout(buffer)
    return emitter.builder.create_memdesc_index(emitter.types.view(op.result.type, layout), buffer, index)


@emits("buffer_slice")
def buffer_slice(emitter: Emitter, op: Op):
    source, offsets, shape = op.args
    if any(isinstance(offset, Value) for offset in offsets):
        return _slice_at_run_time(emitter, op)
    buffer = emitter.values[source]
    emitter.allocated[op.result] = emitter.allocated_shape(source)
    type_ = emitter.types.view(op.result.type, emitter.shared_layout(buffer), emitter.allocated[op.result])
    return emitter.builder.create_memdesc_subslice(type_, buffer, list(offsets))


def _slice_at_run_time(emitter: Emitter, op: Op):
    """A slice of whole rows at a run-time row: the buffer seen as an array of slices, indexed."""
    source, offsets, shape = op.args
    first, *rest = offsets
    if not isinstance(first, Value) or any(rest) or tuple(shape[1:]) != tuple(source.type.shape[1:]):
        raise NotYet("tlx.local_slice with a run-time offset in another dimension than the first", op.site,
                     hint="slice whole rows at a run-time row, or make the other offsets constants")
    builder, buffer = emitter.builder, emitter.values[source]
    folded = builder.create_memdesc_reshape(buffer, [source.type.shape[0] // shape[0], *shape])
    index = builder.create_sdiv(emitter.values[first], builder.get_int32(shape[0]))
    layout = emitter.shared_layout(folded)
    return builder.create_memdesc_index(emitter.types.view(op.result.type, layout), folded, index)


@emits("buffer_trans")
def buffer_trans(emitter: Emitter, op: Op):
    return emitter.builder.create_memdesc_trans(emitter.values[op.args[0]], list(op.args[1]))


@emits("local_load")
def local_load(emitter: Emitter, op: Op):
    return emitter.builder.create_local_load(emitter.mlir_type(op.result), emitter.values[op.args[0]])


@emits("local_store")
def local_store(emitter: Emitter, op: Op):
    buffer, value = emitter.operands(op)
    emitter.builder.create_local_store(buffer, value)
