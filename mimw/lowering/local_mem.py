"""Buffers: allocation, views, register loads and stores."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ..errors import NotYet
from ..ir import Buffer, Op, Value
from ..ir.layouts import LinearShared, NvmmaShared, PaddedShared, SharedLayout, SwizzledShared
from .emitter import Emitter, Placement, emits
from .pins import anchored


@emits("local_alloc")
def local_alloc(emitter: Emitter, op: Op):
    type_, layout = op.args[0], emitter.layouts.shared[op.result]
    emitter.placed[op.result] = Placement(layout, type_.shape)
    return emitter.allocate(emitter.types.buffer(type_.element, (type_.count, *type_.shape), layout))


@emits("buffer_index")
def buffer_index(emitter: Emitter, op: Op):
    buffer, index = emitter.operands(op)
    emitter.placed[op.result] = Placement(emitter.placed[op.args[0]].layout, op.result.type.shape)
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
    """A slice whose place along one dimension is known at run time only: the buffer as an array of slices, indexed."""
    source, offsets, shape = op.args
    extents, layout = source.type.shape, emitter.placed[source].layout
    (dim, *others) = (dim for dim, offset in enumerate(offsets) if isinstance(offset, Value))
    whole = all(shape[other] == extents[other] for other in range(len(shape)) if other != dim)
    if others or not whole or not _consecutive(layout, source.type, shape, dim):
        raise NotYet(f"tlx.local_slice with a run-time offset along dimension {dim} of {source.type} in the layout {layout}",
                     op.site, hint="slice whole rows of a plain buffer, or whole columns as wide as the swizzle; or make the "
                     "offsets constants")
    builder, placement = emitter.builder, Placement(layout, op.result.type.shape)
    folded = builder.create_memdesc_reinterpret(
        emitter.types.buffer(source.type.element, (extents[dim] // shape[dim], *shape), layout), emitter.values[source])
    index = builder.create_sdiv(emitter.values[offsets[dim]], builder.get_int32(shape[dim]))
    emitter.placed[op.result] = placement
    return builder.create_memdesc_index(emitter.types.view(op.result.type, placement), folded, index)


def _consecutive(layout: SharedLayout, type_: Buffer, shape: tuple[int, ...], dim: int) -> bool:
    """True if slices of `shape` along `dim`, whole in all others, follow each other in memory.

    The NV-MMA layout keeps stripes as wide as the swizzle one after the other, and in each of them the rows.
    """
    extents, size = type_.shape, type_.element.bytes
    if isinstance(layout, SwizzledShared):
        return layout.max_phase == 1 and layout.order[-1] == dim
    fastest = 0 if layout.transposed else len(extents) - 1
    if dim == fastest:
        return len(extents) == 2 and layout.swizzle > 0 and shape[dim] * size % layout.swizzle == 0
    one_stripe = layout.swizzle in (0, extents[fastest] * size)
    slowest = dim == (len(extents) - 1 if layout.transposed else 0)
    return one_stripe and slowest and (layout.swizzle == 0 or prod(shape) // shape[fastest] % 8 == 0)


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
    if isinstance(layout, (PaddedShared, LinearShared)):
        moved = replace(layout, bases=tuple(tuple(basis[dim] for dim in order) for basis in layout.bases))
        return replace(moved, shape=tuple(layout.shape[dim] for dim in order)) if isinstance(layout, PaddedShared) else moved
    raise TypeError(f"no transposed view of {layout}")


@emits("local_load")
def local_load(emitter: Emitter, op: Op):
    loaded = emitter.builder.create_local_load(emitter.mlir_type(op.result), emitter.values[op.args[0]])
    if op.attrs.get("layout") is None:
        return loaded
    return anchored(emitter, loaded, op.result.type, emitter.layouts.registers[op.result])


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
