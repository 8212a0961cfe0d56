"""Buffers with odd extents in a padded program: their allocation, views, and what TMA, the tensor cores and threads do with them.

Input: an op of the program as the author has it. Output: the op on pieces of the buffer, or on a buffer of padded extents
(`pad_buffers`). For example:

    %b = local_alloc buffer<fp16[176, 64] x 4>      %b = local_alloc buffer<fp16[16, 64] x 44>
    %t = buffer_index %b %slot                      %t = buffer_index %b (%slot * 11)               its address is the tile's
    async_dot %a (buffer_trans %t) %acc             the same, with the author's types in `exact`
    %x = local_load (buffer_trans %t)               %x = trans (local_load %t pieces=(176, 64, 11))
"""

from __future__ import annotations

from ...ir import Op
from ...ir.extents import is_odd, padded_type
from . import pad_descriptors, pad_elements, pad_views  # noqa: F401
from .fence_products import unfenced_products
from .pad_buffers import is_row, reused_operands
from .pad_ends import Padding, end, refusal

_MOST_ROWS = 256    # of a box: CUDA Driver API, cuTensorMapEncodeTiled


@end("tma_load", "tma_load_multicast", "tma_load_pair", "tma_load_pair_multicast", "tma_fetch", "tma_store")
def copied(padding: Padding, op: Op) -> None:
    """A copy of a block of the descriptor's: it is the descriptor's type that says how much is moved."""
    apart = padding.pieces(op, op.buffer) is None and not is_row(op.buffer.type)
    if apart or padding.in_pieces(op.buffer) and not is_odd(op.descriptor.type.shape):
        raise refusal(op, "whose pieces lie apart,", "give it a buffer of its own.")
    block, tile = op.descriptor.type.shape, op.buffer.type.shape
    if block[len(block) - len(tile):] != tile or set(block[:len(block) - len(tile)]) - {1}:
        raise refusal(op, f"whose block {[*op.descriptor.type.shape]} is no whole buffer,")
    if op.buffer.type.shape[0] > _MOST_ROWS:
        raise refusal(op, f"with more rows than the {_MOST_ROWS} of a box,",
                      f"copy by blocks of at most {_MOST_ROWS} rows.")
    padding.writer.ops.append(Op(op.name, padding.writer.now(op.args), op.results, op.blocks, op.attrs, op.site))


@end("bulk_load", "bulk_store")
def consecutive(padding: Padding, op: Op) -> None:
    """Bytes from the first on: a buffer of one dimension has its padding behind them."""
    if padding.pieces(op, op.buffer) is not None or len(op.buffer.type.shape) > 1:
        raise refusal(op, "copied as consecutive bytes,", "copy it by a descriptor, or give it one dimension.")
    padding.again(op)


@end("async_load", "buffer_load_to_local")
def copied_by_threads(padding: Padding, op: Op) -> None:
    """A copy by pointers into a buffer with padding: what is idle is masked off, and the padding becomes zeros."""
    if padding.pieces(op, op.buffer) is not None:
        _into_pieces(padding, op)
    else:
        padding.again(op, mask=padding.both(op.mask, op.pointer.type.shape))


def _into_pieces(padding: Padding, op: Op) -> None:
    """The copy by a load and a store: its group's wait finds it done."""
    if op.name != "async_load":
        raise refusal(op, "copied by pointers into a buffer that TMA or the tensor cores know,", "copy it by a descriptor.")
    lies = padding.lies[op.buffer]
    tiles = *padding.writer.now((op.pointer, op.other)), padding.both(op.mask, op.pointer.type.shape)
    pointer, other, mask = (lies.straightened(padding.writer, tile) for tile in tiles)
    made = op.with_operands(pointer=pointer, buffer=lies.straight, mask=mask, other=other)
    padding.writer.ops.append(made.with_attrs(pieces=lies.cut))


@end("local_store")
def local_store(padding: Padding, op: Op) -> None:
    """A store by threads. Into pieces it goes part by part; idle elements go into padding, or nowhere."""
    if padding.pieces(op, op.buffer) is None:
        padding.again(op)
        return
    lies, writer = padding.lies[op.buffer], padding.writer
    tiles = (lies.straightened(writer, tile) for tile in writer.now((op.value, op.mask)))
    attrs = op.attrs | ({"run": 1} if lies.turned and op.mask is not None else {})
    writer.emit("local_store", (lies.straight, *tiles), **attrs, pieces=lies.cut)


@end("local_load")
def local_load(padding: Padding, op: Op) -> None:
    """A read by threads: of pieces part by part. Of one under a mask all is read, and a `select` drops what is too much."""
    if padding.pieces(op, op.buffer) is None:
        padding.again(op)
        return
    if op.attrs.get("layout") is not None:
        raise refusal(op, "read in a layout of the author's,", "read it without a layout.")
    lies, writer = padding.lies[op.buffer], padding.writer
    tile = writer.emit("local_load", (lies.straight, writer.now(op.token)), label=op.result.name, layout=None, pieces=lies.cut)
    writer.env[op.result] = lies.straightened(writer, tile)


@end("async_dot")
def async_dot(padding: Padding, op: Op) -> None:
    """The product of as many columns and as deep as the author has it: assembly names the registers that are not idle."""
    if is_odd(op.result.type.shape[:1]):
        raise refusal(op, "with an odd number of rows,", "give each task 64, 128 or 256 rows.")
    if op.result.type.element.name not in ("fp32", "i32"):
        raise refusal(op, f"with sums of {op.result.type.element},", "sum up in fp32, and convert what is stored.")
    exact = (op.a.type, op.b.type, op.result.type)
    written = {"written": True} if op in unfenced_products(padding.program) else {}
    padding.again(op.with_attrs(exact=exact, type=padded_type(op.result.type), **written))


@end("async_dot_wait")
def async_dot_wait(padding: Padding, op: Op) -> None:
    """The wait, and a barrier behind it where the task itself overwrites what its products read: Triton, which puts one in for its
    own products, does not see what assembly reads."""
    meets = {"meets": True} if op in reused_operands(padding.program) else {}
    padding.again(op.with_attrs(exact=op.result.type, **meets))
