"""Triton's own accesses by descriptors of blocks with odd extents in a padded program: by way of a buffer in pieces.

Input: a `descriptor_load`, `descriptor_store` or `descriptor_reduce` of such a block. Output: what they are short for, on a buffer
of the call's own. For example:

    %x = descriptor_load %d [%row, 0]       %b = local_alloc ..; tma_fetch %d [%row, 0] %b; %x = local_load %b pieces=(176, 64, 11)
    descriptor_store %d %x [%row, 0]        local_store %b %x; fence; tma_store %d [%row, 0] %b; tma_store_wait 0
"""

from __future__ import annotations

from ...ir import Buffer, Op, Value
from ...ir.extents import is_odd, padded, padded_type
from .pad_buffers import Lies, pieces_of
from .pad_ends import Padding, end, refusal
from .pad_views import view_of


@end("descriptor_load")
def descriptor_load(padding: Padding, op: Op) -> None:
    lies, writer = _staging(padding, op), padding.writer
    writer.emit("tma_fetch", writer.now((op.descriptor, op.offsets)) + (lies.straight, op.cache_policy))
    tile = writer.emit("local_load", (lies.straight, None), label=op.result.name, layout=None, pieces=lies.cut)
    writer.emit("local_free", (lies.array, ))
    writer.env[op.result] = writer.reshaped(tile, padded(op.result.type.shape))


@end("descriptor_store", "descriptor_reduce")
def descriptor_store(padding: Padding, op: Op) -> None:
    lies, writer = _staging(padding, op), padding.writer
    tile = writer.reshaped(writer.now(op.value), padded(lies.shape))
    writer.emit("local_store", (lies.straight, tile), pieces=lies.cut)
    writer.emit("fence", ("async_shared", ))
    kind = op.kind.name.lower() if op.name == "descriptor_reduce" else ""
    writer.emit("tma_store", writer.now((op.descriptor, op.offsets)) + (lies.straight, None, kind))
    writer.emit("tma_store_wait", (0, ))
    writer.emit("local_free", (lies.array, ))


@end("descriptor_gather")
def descriptor_gather(padding: Padding, op: Op) -> None:
    """Idle rows are copies of the tensor's first one."""
    _check_columns(op, op.result)
    padding.again(op, rows=padding.indices(op.rows), type=padded_type(op.type))


@end("descriptor_scatter")
def descriptor_scatter(padding: Padding, op: Op) -> None:
    """Idle rows go where the author's last one goes, and are as it is."""
    _check_columns(op, op.value)
    rows, value = padding.writer.now((op.rows, op.value))
    padding.again(op, rows=padding.last(rows, op.rows.type.shape), value=padding.last(value, op.value.type.shape))


def _check_columns(op: Op, tile: Value) -> None:
    if is_odd(tile.type.shape[1:]):
        raise refusal(op, "by rows of a number of columns that is no power of two,", "pick by rows of a power of two of columns.")


def _staging(padding: Padding, op: Op) -> Lies:
    """A buffer for the block, without the ones in front of its two last extents."""
    if op.attrs.get("by_pointers") or op.attrs.get("by_mover"):
        raise refusal(op, f"by {op.descriptor.type} on a chip without TMA,", "copy it by pointers under a mask.")
    block = op.descriptor.type
    shape = block.shape[-2:] if set(block.shape[:-2]) <= {1} else block.shape
    pieces = pieces_of(Buffer(block.element, shape), op)
    type_ = Buffer(block.element, pieces.shape, pieces.count)
    array = padding.writer.emit("local_alloc", (type_, None), layout=None, pieces=pieces.count)
    staging = Value(Buffer(block.element, shape))
    return view_of(padding, staging, Lies(pieces, shape, array, 0))
