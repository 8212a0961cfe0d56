"""Elements of buffers that threads pick one by one, in a padded program: idle elements pick what the author's pick as well.

Input: an access of single elements of a buffer whose extents are padded, or that lies in pieces. Output: the access on padded
tiles, of pieces by numbers in the array of these. For example, of 24 elements in a tile of 32:

    local_gather %b %i          of %i with 0 in its idle elements
    local_scatter %b %x %i      of %x and %i with copies of their last elements: what is written twice is the same
    local_gather %t %i 0        of fp16[176, 64] x 4 in pieces of 16 x 64: reshape (local_gather (buffer_flat %pieces) %n)
"""

from __future__ import annotations

from math import prod

from ...ir import Op, Value
from ...ir.extents import is_odd, padded
from .pad_buffers import Lies
from .pad_ends import Padding, end
from .pad_reshapes import renumbered


@end("buffer_flat")
def buffer_flat(padding: Padding, op: Op) -> None:
    """All elements of the array of pieces, or of the buffer with padding, and how the author's numbers are found there."""
    type_, writer = op.buffer.type, padding.writer
    if padding.pieces(op, op.buffer) is not None:
        lies = padding.lies[op.buffer]
        padding.picked[op.result] = lambda numbers: _in_array(padding, lies, numbers)
        writer.env[op.result] = writer.emit("buffer_flat", (lies.array, ))
        return
    padding.made_of[op.result] = None
    shape = (type_.count, *type_.shape) if type_.count else type_.shape
    if is_odd(shape[1:]):
        padding.picked[op.result] = lambda numbers: renumbered(writer, numbers, shape, padded(shape))
    writer.env[op.result] = writer.emit("buffer_flat", (writer.now(op.buffer), ))


@end("local_gather")
def local_gather(padding: Padding, op: Op) -> None:
    if not _is_tile_in_pieces(padding, op):
        padding.again(op, indices=_numbers(padding, op, padding.indices(op.indices)))
        return
    flat, numbers = _along(padding, op, padding.indices(op.indices))
    writer = padding.writer
    picked = writer.emit("local_gather", (flat, numbers, 0, writer.now(op.token)), label=op.result.name)
    writer.env[op.result] = writer.reshaped(picked, writer.now(op.indices).type.shape)


@end("local_scatter")
def local_scatter(padding: Padding, op: Op) -> None:
    shape, writer = op.indices.type.shape, padding.writer
    value, indices = (padding.last(tile, shape) for tile in writer.now((op.value, op.indices)))
    if not _is_tile_in_pieces(padding, op):
        padding.again(op, value=value, indices=_numbers(padding, op, indices))
        return
    flat, numbers = _along(padding, op, indices)
    writer.emit("local_scatter", (flat, writer.reshaped(value, numbers.type.shape), numbers, 0, writer.now(op.token)))


@end("local_masked_scatter", "local_atomic_rmw")
def masked(padding: Padding, op: Op) -> None:
    indices = _numbers(padding, op, padding.writer.now(op.indices))
    padding.again(op, indices=indices, mask=padding.both(op.mask, op.indices.type.shape))


@end("local_atomic_cas")
def local_atomic_cas(padding: Padding, op: Op) -> None:
    """Idle elements compare with what they write, at the place of the author's last ones: nothing changes by them."""
    shape, writer = op.indices.type.shape, padding.writer
    compare, value, indices = writer.now((op.compare, op.value, op.indices))
    if is_odd(shape):
        compare, indices = writer.emit("select", (padding.within(shape), compare, value)), padding.last(indices, shape)
    padding.again(op, compare=compare, indices=_numbers(padding, op, indices))


def _is_tile_in_pieces(padding: Padding, op: Op) -> bool:
    """True of an access by indices along an axis of such a tile. KernelError for one of which there is no way to elements."""
    return op.buffer not in padding.picked and padding.pieces(op, op.buffer) is not None and padding.in_pieces(op.buffer)


def _numbers(padding: Padding, op: Op, numbers: Value) -> Value:
    """Row-major numbers in the author's buffer as numbers in the new one."""
    there = padding.picked.get(op.buffer)
    return numbers if there is None else there(padding.writer.cast_i32(numbers))


def _in_array(padding: Padding, lies: Lies, numbers: Value) -> Value:
    """Row-major numbers in a tile, or an array of tiles, as numbers in the array of pieces."""
    writer = padding.writer
    *tiles, rows, columns = lies.shape
    column, row = writer.by_constant("urem", numbers, columns), writer.by_constant("udiv", numbers, columns)
    if prod(tiles) == 1:
        return _in_pieces(padding, lies, row, column)
    before = writer.scaled(writer.by_constant("udiv", row, rows), lies.pieces.count * prod(lies.pieces.shape))
    return writer.emit("add", (before, _in_pieces(padding, lies, writer.by_constant("urem", row, rows), column)))


def _along(padding: Padding, op: Op, indices: Value) -> tuple[Value, Value]:
    """The array of pieces, flat, and the numbers there of the elements that indices along an axis of a tile pick."""
    lies, writer, shape = padding.lies[op.buffer], padding.writer, op.indices.type.shape
    places = [writer.cast_i32(indices) if axis == op.axis % 2 else padding.inside(shape, axis) for axis in (0, 1)]
    numbers = _in_pieces(padding, lies, *(reversed(places) if lies.turned else places))
    return writer.emit("buffer_flat", (lies.array, )), writer.reshaped(numbers, (prod(numbers.type.shape), ))


def _in_pieces(padding: Padding, lies: Lies, row: Value, column: Value) -> Value:
    """The number of an element of a tile in the array of pieces."""
    writer, pieces = padding.writer, lies.pieces
    (height, width), size = pieces.shape, prod(pieces.shape)
    first = writer.scaled(lies.first, size) if isinstance(lies.first, Value) else writer.constant(lies.first * size, row.type)
    total = first if first.type == row.type else writer.emit("splat", (row.type, first))
    for place, step, apart, within in ((row, height, 1, width), (column, width, pieces.of_stripe, 1)):
        piece = writer.scaled(writer.by_constant("udiv", place, step), apart * size)
        inside = writer.scaled(writer.by_constant("urem", place, step), within)
        total = writer.emit("add", (writer.emit("add", (total, piece)), inside))
    return total
