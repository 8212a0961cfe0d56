"""Buffers with odd extents in a padded program: their allocation, views, and what TMA, the tensor cores and threads do with them.

Input: an op of the program as the author has it. Output: the op on pieces of the buffer, or on a buffer of padded extents
(`pad_buffers`). For example:

    %b = local_alloc buffer<fp16[176, 64] x 4>      %b = local_alloc buffer<fp16[16, 64] x 44>
    %t = buffer_index %b %slot                      %t = buffer_index %b (%slot * 11)               its address is the tile's
    async_dot %a (buffer_trans %t) %acc             the same, with the author's types in `exact`
"""

from __future__ import annotations

from ...ir import I32, Buffer, Op, Value
from ...ir.extents import is_odd, padded, padded_type
from .pad_buffers import Pieces, padded_buffer
from .pad_ends import Padding, end, refusal

_MOST_ROWS = 256    # of a box: CUDA Driver API, cuTensorMapEncodeTiled


@end("local_alloc")
def local_alloc(padding: Padding, op: Op) -> None:
    pieces = padding.made_of[op.result] = padding.arrays[op.result]
    if op.type.space != "smem" or op.reuse is not None or op.attrs.get("layout") is not None:
        raise refusal(op, "in tensor memory, in storage that is shared, or with a layout of the author's,",
                      "allocate it in shared memory of its own, without a layout.")
    type_ = (padded_buffer(op.type) if pieces is None else
             Buffer(op.type.element, pieces.shape, max(1, op.type.count) * pieces.tiles * pieces.count))
    array = padding.writer.emit("local_alloc", (type_, None), results=(Value(type_, op.result.name, op.result.number), ),
                                **dict(op.attrs))
    padding.writer.env[op.result] = array
    if pieces is not None and _is_single(op.type):
        padding.writer.env[op.result] = _first(padding, array, None, pieces)


@end("local_free")
def local_free(padding: Padding, op: Op) -> None:
    padding.again(op)


@end("buffer_index")
def buffer_index(padding: Padding, op: Op) -> None:
    pieces = padding.made_of[op.result] = padding.made_of[op.buffer]
    array, index = padding.writer.now((op.buffer, op.index))
    if pieces is not None and (_is_single(op.buffer.type) or not array.type.count):
        raise refusal(op, "a row of a single buffer,", "index an array of buffers.")
    if pieces is None:
        padding.writer.env[op.result] = padding.writer.emit("buffer_index", (array, index))
    else:
        padding.writer.env[op.result] = _first(padding, array, index, pieces)


@end("buffer_trans")
def buffer_trans(padding: Padding, op: Op) -> None:
    padding.made_of[op.result] = padding.made_of[op.buffer]
    padding.writer.env[op.result] = padding.writer.emit("buffer_trans", (padding.writer.now(op.buffer), op.order))


@end("buffer_reinterpret")
def buffer_reinterpret(padding: Padding, op: Op) -> None:
    """Another number of outermost extents of 1: the same bytes at the same place. A row is seen with or without its padding."""
    have, want = op.buffer.type, op.type
    pieces = padding.made_of[op.result] = padding.made_of.get(op.buffer)
    shapes = [_without_ones(type_.shape if pieces else padded(type_.shape)) for type_ in (have, want)]
    if have.element != want.element or op.attrs.get("layout") is not None or shapes[0] != shapes[1]:
        raise refusal(op, "seen as another type or with other extents,", "add or leave out outermost extents of 1 only.")
    if pieces is None:
        padding.again(op, type=padded_buffer(want))
    else:
        padding.writer.env[op.result] = padding.writer.now(op.buffer)


def _without_ones(shape: tuple[int, ...]) -> tuple[int, ...]:
    first = next((at for at, extent in enumerate(shape[:-1]) if extent != 1), len(shape) - 1)
    return shape[first:]


@end("tma_load", "tma_store")
def copied(padding: Padding, op: Op) -> None:
    """A copy of a block of the descriptor's: it is the descriptor's type that says how much is moved."""
    if op.descriptor.type.shape != op.buffer.type.shape:
        raise refusal(op, f"whose block {[*op.descriptor.type.shape]} is no whole buffer,")
    if op.buffer.type.shape[0] > _MOST_ROWS:
        raise refusal(op, f"with more rows than the {_MOST_ROWS} of a box,",
                      f"copy by blocks of at most {_MOST_ROWS} rows.")
    padding.writer.ops.append(Op(op.name, padding.writer.now(op.args), op.results, op.blocks, op.attrs, op.site))


@end("async_load", "buffer_load_to_local")
def copied_by_threads(padding: Padding, op: Op) -> None:
    """A copy by pointers into a buffer with padding: what is idle is masked off, and the padding becomes zeros."""
    if padding.made_of[op.buffer] is not None:
        raise refusal(op, "copied by pointers into a buffer that TMA or the tensor cores know,", "copy it by a descriptor.")
    padding.again(op, mask=padding.both(op.mask, op.pointer.type.shape))


@end("local_store")
def local_store(padding: Padding, op: Op) -> None:
    """A store by threads. Into pieces it goes stripe by stripe; idle elements go into padding, or nowhere."""
    pieces = padding.made_of[op.buffer]
    if pieces is None:
        padding.again(op)
    elif op.mask is not None:
        raise refusal(op, "stored by threads under a mask,", "store without a mask.")
    else:
        down = op.buffer.type.shape[0] // pieces.shape[0]
        count = down, pieces.count // down
        padding.writer.ops.append(Op(op.name, padding.writer.now(op.args), (), (), {**op.attrs, "pieces": count}, op.site))


@end("local_load")
def local_load(padding: Padding, op: Op) -> None:
    if padding.made_of[op.buffer] is not None:
        raise refusal(op, "read by threads from a buffer that TMA or the tensor cores know,",
                      "read it by the tensor cores, or copy it to a buffer of its own.")
    padding.again(op)


@end("async_dot")
def async_dot(padding: Padding, op: Op) -> None:
    """The product of as many columns and as deep as the author has it: assembly names the registers that are not idle."""
    if is_odd(op.result.type.shape[:1]):
        raise refusal(op, "with an odd number of rows,", "give each task 64, 128 or 256 rows.")
    if op.result.type.element.name not in ("fp32", "i32"):
        raise refusal(op, f"with sums of {op.result.type.element},", "sum up in fp32, and convert what is stored.")
    exact = (op.a.type, op.b.type, op.result.type)
    written = {"written": True} if op in padding.unfenced else {}
    padding.again(op.with_attrs(exact=exact, type=padded_type(op.result.type), **written))


@end("async_dot_wait")
def async_dot_wait(padding: Padding, op: Op) -> None:
    padding.again(op.with_attrs(exact=op.result.type))


def _is_single(type_: Buffer) -> bool:
    """True of one tile, and not an array of them."""
    return not type_.count and len(type_.shape) < 3


def _first(padding: Padding, array: Value, index: Value | int | None, pieces: Pieces) -> Value:
    """The first piece of buffer number `index` of an array."""
    writer = padding.writer
    if isinstance(index, Value):
        index = writer.by_constant("mul", writer.cast_i32(index), pieces.count)
    else:
        index = writer.constant((index or 0) * pieces.count, I32)
    return writer.emit("buffer_index", (array, index), pieces=pieces.count)

