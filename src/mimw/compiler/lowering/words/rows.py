"""Copies of picked rows: `async_descriptor_gather` and `_scatter`, `tle.gpu.copy` of rows, and the register form of descriptors.

Input: an op with an operand `rows`. Output: Triton's op where the chip copies four rows at a time, else row copies of ours:

    tma_gather %map %rows %column %full %tile        sm_100a: ttng.async_tma_gather;  sm_90a: `hopper.row_copies`
"""

from __future__ import annotations

from ....ir import I32, Op, Tensor
from ....ir.layouts import NvmmaShared
from ..emitter import Emitter, emits
from ..hopper import narrow_rows, row_copies
from ..predicates import predicate
from . import fetches


@emits("tma_gather")
def tma_gather(emitter: Emitter, op: Op):
    _gather(emitter, op, emitter.of(op.buffer), emitter.placed[op.buffer].allocated, emitter.of(op.barrier), op.predicate)


@emits("tma_scatter")
def tma_scatter(emitter: Emitter, op: Op):
    _scatter(emitter, op, emitter.of(op.buffer), emitter.placed[op.buffer].allocated)


@emits("tma_fetch_rows")
def tma_fetch_rows(emitter: Emitter, op: Op):
    """The fence orders what threads wrote there before. A run of fetches has one barrier, as in `copies.tma_fetch`."""
    size = op.attrs.get("bytes", op.buffer.type.bytes)
    if size:
        emitter.builder.create_fence_async_shared(False)
    always = emitter.builder.get_int1(True)
    _gather(emitter, op, emitter.of(op.buffer), emitter.placed[op.buffer].allocated, fetches.begin(emitter, size, always), None)
    if not op.attrs.get("more", False):
        fetches.end(emitter, always)


@emits("descriptor_gather")
def descriptor_gather(emitter: Emitter, op: Op):
    """`desc.gather(rows, column)`: into a tile of its own, waited for by the calling task, then read, as `desc.load`."""
    type_ = op.result.type
    tile = emitter.builder.create_local_alloc(_lying(emitter, op, type_))
    always = emitter.builder.get_int1(True)
    _gather(emitter, op, tile, type_.shape, fetches.begin(emitter, type_.numel * type_.element.bytes, always), None)
    fetches.end(emitter, always)
    return emitter.builder.create_local_load(emitter.mlir_type(op.result), tile)


@emits("descriptor_scatter")
def descriptor_scatter(emitter: Emitter, op: Op):
    """`desc.scatter(value, rows, column)`: through a tile of its own, complete when the call returns."""
    tile = emitter.builder.create_local_alloc(_lying(emitter, op, op.value.type))
    emitter.builder.create_local_store(tile, emitter.operand(op, "value"))
    emitter.builder.create_fence_async_shared(False)
    _scatter(emitter, op, tile, op.value.type.shape)
    emitter.builder.create_async_tma_store_wait(0, False)
    emitter.builder.create_local_dealloc(tile)


def _lying(emitter: Emitter, op: Op, type_: Tensor):
    """The memory descriptor of a tile as the descriptor of `op` has it."""
    layout: NvmmaShared = emitter.layouts.descriptors[op.descriptor]
    return emitter.types.buffer(type_.element, type_.shape, layout)


def _gather(emitter: Emitter, op: Op, tile, allocated: tuple[int, ...], barrier, condition) -> None:
    rows, builder = _row_numbers(emitter, op), emitter.builder
    if emitter.target.has("gather4"):
        builder.create_async_tma_gather(emitter.of(op.descriptor), rows, _column(emitter, op), barrier, tile,
                                        predicate(emitter, condition), False)
        return
    shape = row_copies.rows_of(emitter, op, allocated)
    start = narrow_rows.gather if shape.is_narrow else row_copies.start_gather
    start(emitter, op, rows, tile, shape, barrier, condition)


def _scatter(emitter: Emitter, op: Op, tile, allocated: tuple[int, ...]) -> None:
    rows = _row_numbers(emitter, op)
    if emitter.target.has("gather4"):
        emitter.builder.create_async_tma_scatter(emitter.of(op.descriptor), rows, _column(emitter, op), tile)
        return
    shape = row_copies.rows_of(emitter, op, allocated)
    start = narrow_rows.scatter if shape.is_narrow else row_copies.start_scatter
    start(emitter, op, rows, tile, shape)


def _row_numbers(emitter: Emitter, op: Op):
    """The row numbers as 32-bit integers, in the layout in which the copies take them."""
    rows = emitter.operand(op, "rows")
    type_ = emitter.types.tensor(Tensor(I32, op.rows.type.shape), emitter.wanted(op, "rows"))
    return rows if op.rows.type.element == I32 else emitter.builder.create_int_cast(rows, type_, True)


def _column(emitter: Emitter, op: Op):
    return emitter.builder.create_int_cast(emitter.of(op.column), emitter.builder.get_int32_ty(), True)
