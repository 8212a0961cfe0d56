"""Views of buffers: one of an array, a slice, a transpose, another type.

Input: an op that gives a view. Output: Triton's view op on the memory descriptor, and the view's `Placement`:

    %tile = buffer_index %tiles %slot        ttg.memdesc_index %tiles[%slot]
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ....errors import KernelError, NotYet
from ....ir import Buffer, Op, Value
from ....ir.layouts import LinearShared, NvmmaShared, PaddedShared, SharedLayout, SwizzledShared
from ..blackwell import tensor_memory
from ..choice import chosen_by
from ..emitter import Emitter, Placement, emits
from ..types import lifted
from . import pieces
from .aliases import buffer_in_storage

_MOST_POSITIONS = 64  # of a slice at run time that is found by comparing
BLOCK_ROWS = 256     # of a block of an NV-MMA layout: what one TMA copy has at most


@emits("buffer_index")
def buffer_index(emitter: Emitter, op: Op):
    source = op.buffer
    if source.type.space == tensor_memory.SPACE:
        return tensor_memory.buffer_index(emitter, op)
    placement, shape = emitter.placed[source], op.result.type.shape
    if source.type.count == 0:
        return _row(emitter, op)
    emitter.placed[op.result] = Placement(placement.layout, shape)
    if placement.place is not None:
        return buffer_in_storage(emitter, op)
    if op.attrs.get("around"):
        return pieces.first(emitter, op)
    view = emitter.types.view(op.result.type, emitter.placed[op.result])
    return emitter.builder.create_memdesc_index(view, emitter.of(source), emitter.of(op.index))


def _row(emitter: Emitter, op: Op):
    """One step along the leading dimension of a single buffer: the buffer as an array of tiles of the other dimensions,
    indexed."""
    source = op.buffer
    placement, shape = emitter.placed[source], source.type.shape
    if placement.allocated[1:] != shape[1:]:
        raise NotYet(f"not yet: an index into {source.type}, a slice that leaves parts of its rows out", op.site,
                     hint="index first, slice then")
    rest, layout = op.result.type.shape, placement.layout
    if len(shape) > 1 and layout.rank == len(shape):
        layout = replace(layout, order=tuple(dim - 1 for dim in layout.order if dim))
    emitter.placed[op.result] = Placement(layout, rest)
    rows = emitter.types.buffer(source.type.element, (shape[0], *rest), lifted(layout, len(rest)))
    array = emitter.builder.create_memdesc_reinterpret(rows, emitter.of(source))
    view = emitter.types.view(op.result.type, emitter.placed[op.result])
    return emitter.builder.create_memdesc_index(view, array, emitter.of(op.index))


@emits("buffer_slice")
def buffer_slice(emitter: Emitter, op: Op):
    if op.buffer.type.space == tensor_memory.SPACE:
        return tensor_memory.buffer_slice(emitter, op)
    if any(isinstance(offset, Value) for offset in op.offsets):
        return _slice_at_run_time(emitter, op)
    emitter.placed[op.result] = emitter.placed[op.buffer]
    type_ = emitter.types.view(op.result.type, emitter.placed[op.result])
    return emitter.builder.create_memdesc_subslice(type_, emitter.of(op.buffer), list(op.offsets))


def _slice_at_run_time(emitter: Emitter, op: Op):
    """Whole rows or columns that lie together are indexed; anything else is one of the few positions that it can have."""
    source, offsets, shape = op.buffer, op.offsets, op.shape
    builder, extents = emitter.builder, source.type.shape
    moving = [dim for dim, offset in enumerate(offsets) if isinstance(offset, Value)]
    number, count = builder.get_int32(0), 1
    for dim in moving:
        step = builder.create_sdiv(emitter.of(offsets[dim]), builder.get_int32(shape[dim]))
        number = builder.create_add(builder.create_mul(number, builder.get_int32(extents[dim] // shape[dim])), step)
        count *= extents[dim] // shape[dim]
    placement = emitter.placed[source]
    whole = placement.allocated == extents and all(shape[dim] == extents[dim] for dim in range(len(shape)) if dim != moving[0])
    if whole and _consecutive(placement.layout, source.type, shape, moving[0]):
        emitter.placed[op.result] = Placement(placement.layout, shape)
        folded = builder.create_memdesc_reinterpret(
            emitter.types.buffer(source.type.element, (count, *shape), placement.layout), emitter.of(source))
        return builder.create_memdesc_index(emitter.types.view(op.result.type, emitter.placed[op.result]), folded, number)
    if count > _MOST_POSITIONS:
        raise NotYet(f"not yet: tlx.local_slice at one of {count} run-time positions in {source.type}", op.site,
                     hint="slice whole rows, or larger parts")
    emitter.placed[op.result] = placement
    view = emitter.types.view(op.result.type, placement)

    def part(position: int):
        starts = list(offsets)
        for dim in reversed(moving):
            position, step = divmod(position, extents[dim] // shape[dim])
            starts[dim] = step * shape[dim]
        return builder.create_memdesc_subslice(view, emitter.of(source), starts)

    return chosen_by(emitter, number, list(range(count)), part)


def _consecutive(layout: SharedLayout, type_: Buffer, shape: tuple[int, ...], dim: int) -> bool:
    """True if slices of `shape` along `dim`, whole in all others, follow each other in memory.

    The NV-MMA layout keeps stripes as wide as the swizzle one after the other, and in each of them the rows. Of linear maps and of
    padded rows nothing is claimed.
    """
    extents, size = type_.shape, type_.element.bytes
    if isinstance(layout, SwizzledShared):
        return layout.max_phase == 1 and layout.order[-1] == dim
    if not isinstance(layout, NvmmaShared):
        return False
    fastest = 0 if layout.transposed else len(extents) - 1
    if dim == fastest:
        return len(extents) == 2 and layout.swizzle > 0 and shape[dim] * size % layout.swizzle == 0
    if layout.transposed and max(extents) > BLOCK_ROWS:
        return False
    one_stripe = layout.swizzle in (0, extents[fastest] * size)
    slowest = dim == (len(extents) - 1 if layout.transposed else 0)
    return one_stripe and slowest and (layout.swizzle == 0 or prod(shape) // shape[fastest] % 8 == 0)


@emits("buffer_trans")
def buffer_trans(emitter: Emitter, op: Op):
    order, placement = op.order, emitter.placed[op.buffer]
    if tuple(order) != tuple(range(len(order))):
        _refuse_blocks(op, placement)
    emitter.placed[op.result] = Placement(transposed(placement.layout, order),
                                          tuple(placement.allocated[dim] for dim in order))
    return emitter.builder.create_memdesc_trans(emitter.of(op.buffer), list(order))


def _refuse_blocks(op: Op, placement: Placement) -> None:
    """KernelError for a turned view of more rows than a block of Triton's NV-MMA layout has, each of several swizzle widths. The
    buffer has its blocks of rows one after the other in each stripe of a swizzle width, as TMA, tile reads and products of the
    buffer as it lies take it; in the turned view Triton has the stripes one after the other in each block (an H200, wrong numbers;
    docs/BUGS.md)."""
    layout, extents = placement.layout, placement.allocated
    if not isinstance(layout, NvmmaShared) or not layout.swizzle:
        return
    *rows, columns = reversed(extents) if layout.transposed else extents
    row_bytes = columns * op.buffer.type.element.bytes
    if max(rows, default=0) > BLOCK_ROWS and row_bytes > layout.swizzle:
        raise KernelError(f"a transposed view of {op.buffer.type}, which lies in {max(rows)} rows of {row_bytes} bytes: Triton "
                          f"reads it from other places than those of the buffer, where there are more than {BLOCK_ROWS} rows of "
                          f"more than {layout.swizzle} bytes.", op.site,
                          hint=f"make buffers of {BLOCK_ROWS} rows each, or of rows of {layout.swizzle} bytes")


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


@emits("buffer_reinterpret")
def buffer_reinterpret(emitter: Emitter, op: Op):
    source, type_ = op.buffer, op.type
    if type_.space == tensor_memory.SPACE:
        return tensor_memory.buffer_reinterpret(emitter, op)
    had = emitter.placed[source]
    layout = emitter.layouts.shared.get(op.result, had.layout)
    same_shape = type_.shape == source.type.shape and type_.element.bits == source.type.element.bits
    allocated = had.allocated if same_shape else type_.shape
    if had.place is not None and type_.count == 0:
        raise NotYet(f"not yet: {source.type}, whose buffers lie apart in shared storage, as one buffer", op.site)
    emitter.placed[op.result] = Placement(layout, allocated, had.place, had.storage_bytes)
    if had.storage_bytes:
        return emitter.of(source)
    if type_.count == 0:
        result = emitter.types.view(type_, emitter.placed[op.result])
    else:
        count = had.place.span if had.place is not None else type_.count
        result = emitter.types.buffer(type_.element, (count, *type_.shape), lifted(layout, len(type_.shape)))
    return emitter.builder.create_memdesc_reinterpret(result, emitter.of(source))
