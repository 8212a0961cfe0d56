"""Buffers: allocation, views, register loads and stores."""

from __future__ import annotations

from dataclasses import replace

from ..errors import NotYet
from ..ir import Op, Value
from ..ir.layouts import NvmmaShared, SharedLayout, SwizzledShared
from .aliases import array_in_storage, buffer_in_storage
from .emitter import Emitter, Placement, emits


@emits("local_alloc")
def local_alloc(emitter: Emitter, op: Op):
    if "place" in op.attrs:
        value, emitter.placed[op.result] = array_in_storage(emitter, op)
        return value
    type_, layout = op.args[0], emitter.layouts.shared[op.result]
    emitter.placed[op.result] = Placement(layout, type_.shape)
    return emitter.builder.create_local_alloc(emitter.types.buffer(type_.element, (type_.count, *type_.shape), layout))


@emits("buffer_index")
def buffer_index(emitter: Emitter, op: Op):
    source = emitter.placed[op.args[0]]
    emitter.placed[op.result] = Placement(source.layout, op.result.type.shape)
    if source.place is not None:
        return buffer_in_storage(emitter, op)
    buffer, index = emitter.operands(op)
    return emitter.builder.create_memdesc_index(emitter.types.view(op.result.type, emitter.placed[op.result]), buffer, index)


@emits("buffer_slice")
def buffer_slice(emitter: Emitter, op: Op):
    source, offsets, _ = op.args
    if any(isinstance(offset, Value) for offset in offsets):
        return _slice_at_run_time(emitter, op)
    emitter.placed[op.result] = emitter.placed[source]
    type_ = emitter.types.view(op.result.type, emitter.placed[op.result])
    return emitter.builder.create_memdesc_subslice(type_, emitter.values[source], list(offsets))


def _slice_at_run_time(emitter: Emitter, op: Op):
    """A slice of whole rows at a run-time row: the buffer seen as an array of slices, indexed."""
    source, offsets, shape = op.args
    first, *rest = offsets
    if not isinstance(first, Value) or any(rest) or tuple(shape[1:]) != tuple(source.type.shape[1:]):
        raise NotYet("tlx.local_slice with a run-time offset in another dimension than the first", op.site,
                     hint="slice whole rows at a run-time row, or make the other offsets constants")
    builder, placement = emitter.builder, Placement(emitter.placed[source].layout, op.result.type.shape)
    folded = builder.create_memdesc_reinterpret(
        emitter.types.buffer(source.type.element, (source.type.shape[0] // shape[0], *shape), placement.layout),
        emitter.values[source])
    index = builder.create_sdiv(emitter.values[first], builder.get_int32(shape[0]))
    emitter.placed[op.result] = placement
    return builder.create_memdesc_index(emitter.types.view(op.result.type, placement), folded, index)


@emits("buffer_trans")
def buffer_trans(emitter: Emitter, op: Op):
    source, order = op.args
    placement = emitter.placed[source]
    emitter.placed[op.result] = Placement(transposed(placement.layout, order),
                                          tuple(placement.allocated[dim] for dim in order))
    return emitter.builder.create_memdesc_trans(emitter.values[source], list(order))


def transposed(layout: SharedLayout, order: tuple[int, ...]) -> SharedLayout:
    """The layout of a view whose dimension i is dimension `order[i]` of the original."""
    if isinstance(layout, SwizzledShared):
        return replace(layout, order=tuple(order.index(dim) for dim in layout.order))
    if isinstance(layout, NvmmaShared):
        return layout if tuple(order) == tuple(range(len(order))) else replace(layout, transposed=not layout.transposed)
    raise TypeError(f"no transposed view of {layout}")


@emits("local_load")
def local_load(emitter: Emitter, op: Op):
    return emitter.builder.create_local_load(emitter.mlir_type(op.result), emitter.values[op.args[0]])


@emits("local_gather")
def local_gather(emitter: Emitter, op: Op):
    buffer, indices = emitter.operands(op)
    return emitter.builder.create_local_gather(emitter.mlir_type(op.result), buffer, indices, op.args[2])


@emits("local_scatter")
def local_scatter(emitter: Emitter, op: Op):
    buffer, value, indices = emitter.operands(op)
    emitter.builder.create_local_scatter(buffer, value, indices, op.args[3])


@emits("local_store")
def local_store(emitter: Emitter, op: Op):
    buffer, value = emitter.operands(op)
    emitter.builder.create_local_store(buffer, value)
