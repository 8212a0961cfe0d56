"""Allocations and views of buffers with odd extents in a padded program.

Input: an op of the program as the author has it that makes a buffer, or a view of one. Output: the pieces, or the padded
buffer, and `Lies`, which says of each tile where its pieces are. For example:

    %b = local_alloc buffer<fp16[176, 64] x 4>      %b = local_alloc buffer<fp16[16, 64] x 44>
    %t = buffer_index %b %slot                      %t = buffer_index %b (%slot * 11) around=(176, 64)      the first of 11
    %h = buffer_slice %t (16, 0) [16, 64]           %h = buffer_index %b (%slot * 11 + 1)
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ...ir import I32, Buffer, Builder, Op, Place, Value
from ...ir.extents import is_odd, padded
from . import pad_tensor_memory
from .pad_buffers import Lies, Pieces, padded_buffer, picked_arrays
from .pad_ends import Padding, end, refusal


@end("local_alloc")
def local_alloc(padding: Padding, op: Op) -> None:
    pieces, type_ = padding.arrays[op.result], op.type
    if type_.space == "tmem":
        pad_tensor_memory.allocate(padding, op)
        return
    attrs = dict(op.attrs)
    if pieces is None and (op.reuse is not None or attrs.get("layout") is not None):
        raise refusal(op, "which only threads access, in storage that is shared, or with a layout of the author's,",
                      "allocate it in shared memory of its own, without a layout.")
    if attrs.get("layout") is not None:
        raise refusal(op, "with a layout of the author's,", "leave the layout to the compiler.")
    if pieces is None:
        new, place = padded_buffer(type_), None
    else:
        count = max(1, type_.count) * pieces.tiles * pieces.count
        place = _in_pieces(padding, op, pieces)
        if op.result in picked_arrays(padding.program):       # a flat view of them has a power of two of elements
            count = padded((count, ))[0]
        new = Buffer(type_.element, pieces.shape, count if place is None else place.count)
    if place is not None:
        attrs["place"] = place
    if pieces is not None:
        attrs["pieces"] = pieces.tiles * pieces.count
    array = padding.writer.emit("local_alloc", (new, padding.writer.now(op.reuse)),
                                results=(Value(new, op.result.name, op.result.number), ), **attrs)
    padding.writer.env[op.result] = array
    padding.made_of[op.result] = pieces
    if pieces is not None:
        view_of(padding, op.result, Lies(pieces, _extents(type_), array, 0, place=op.attrs.get("place")))


def _in_pieces(padding: Padding, op: Op, pieces: Pieces) -> Place | None:
    """The place of the pieces in shared storage; the gaps between the author's buffers are pieces, too."""
    place, size = op.attrs.get("place"), pieces.bytes_of(op.type.element)
    if place is None:
        return None
    if op.reuse in picked_arrays(padding.program):
        raise refusal(op, "of which threads pick elements, in storage that is shared,", "give it storage of its own.")
    if place.offset % size or place.stride % size:
        raise refusal(op, f"in storage that puts it at {place}, no multiples of {size} bytes,", "give it storage of its own.")
    return Place(place.offset, size, size, (place.end - place.offset) // size)


def _extents(type_: Buffer) -> tuple[int, ...]:
    """The extents of a buffer, or of an array of them with the number of them in front."""
    return (type_.count, *type_.shape) if type_.count else type_.shape


def view_of(padding: Padding, value: Value, lies: Lies) -> Lies:
    """Note how a view lies, with the view of its first piece, which is made if it is a single tile."""
    if len(lies.shape) == 2:
        lies = replace(lies, straight=_first(padding.writer, lies))
        padding.writer.env[value] = lies.straight
    padding.lies[value] = lies
    return lies


def _first(writer: Builder, lies: Lies) -> Value:
    """The view of a tile's first piece."""
    first = lies.first if isinstance(lies.first, Value) else writer.constant(lies.first, I32)
    attrs = {} if lies.is_whole else dict(around=lies.pieces.around)
    return writer.emit("buffer_index", (lies.array, first), **attrs)


@end("local_free")
def local_free(padding: Padding, op: Op) -> None:
    padding.again(op)


@end("buffer_index")
def buffer_index(padding: Padding, op: Op) -> None:
    pieces = padding.pieces(op, op.buffer)
    padding.made_of[op.result] = pieces
    if pieces is None:
        padding.writer.env[op.result] = padding.writer.emit("buffer_index", padding.writer.now((op.buffer, op.index)))
        return
    if not op.buffer.type.count and len(op.buffer.type.shape) < 3:
        raise refusal(op, "a row of a single buffer,", "index an array of buffers.")
    lies, writer = padding.lies[op.buffer], padding.writer
    index, shape = writer.now(op.index), lies.shape[1:]
    if lies.place is not None:
        first = _in_storage(writer, index, lies.place, pieces.bytes_of(op.buffer.type.element))
    else:
        first = _plus(writer, lies.first, _times(writer, index, prod(shape[:-2]) * pieces.count))
    view_of(padding, op.result, replace(lies, shape=shape, first=first, place=None))


def _in_storage(writer: Builder, index: Value | int, place: Place, size: int) -> Value | int:
    """The number of the first piece of a buffer in storage whose buffers come in groups, with gaps between."""
    if isinstance(index, int):
        return (place.start(index) - place.offset) // size
    index = writer.cast_i32(index)
    if place.group_size == 1:
        return _times(writer, index, place.stride // size)
    slot, part = writer.by_constant("sdiv", index, place.group_size), writer.by_constant("srem", index, place.group_size)
    return _plus(writer, _times(writer, slot, place.stride // size), _times(writer, part, place.size // size))


def _times(writer: Builder, number: Value | int, factor: int) -> Value | int:
    return number * factor if isinstance(number, int) else writer.scaled(writer.cast_i32(number), factor)


def _plus(writer: Builder, one: Value | int, other: Value | int) -> Value | int:
    if isinstance(one, int) and isinstance(other, int):
        return one + other
    one, other = (number if isinstance(number, Value) else writer.constant(number, I32) for number in (one, other))
    return writer.emit("add", (one, other))


@end("buffer_slice")
def buffer_slice(padding: Padding, op: Op) -> None:
    """A box of whole pieces, or columns of tensor memory."""
    if op.buffer.type.space == "tmem":
        pad_tensor_memory.columns(padding, op)
        return
    if len(op.shape) == 1 and op.offsets == (0, ) and op.buffer.type.shape == padded(op.shape):    # a row without its padding
        padding.made_of[op.result] = None
        padding.writer.env[op.result] = padding.writer.now(op.buffer)
        return
    pieces = padding.made_of[op.result] = padding.pieces(op, op.buffer) if len(op.shape) > 1 else None
    lies, shape = padding.lies.get(op.buffer), op.shape
    if lies is not None and _is_for_products(op, lies):
        padding.parts.add(op.result)
        padding.writer.env[op.result] = padding.writer.now(op.buffer)
        return
    if lies is None or len(shape) != 2 or lies.turned:
        turned = lies is not None and lies.turned
        raise refusal(op, "a box of a buffer that is transposed," if turned else "a box of a buffer that has padding,",
                      "slice first, and transpose then." if turned else
                      "give it a multiple of 8 rows and rows of a multiple of 32 bytes, or take elements by tl.gather.")
    first = lies.first
    for offset, extent, step, apart, whole in zip(op.offsets, shape, pieces.shape, (1, pieces.of_stripe), lies.shape):
        if (extent % step or isinstance(offset, int) and offset % step) and (offset != 0 or extent != whole):
            raise refusal(op, f"a box that cuts the {pieces.shape[0]} rows x {pieces.shape[1]} columns of which it consists,",
                          f"slice by multiples of {pieces.shape[0]} rows and {pieces.shape[1]} columns, or, for a product, the "
                          "first columns of all rows.")
        first = _plus(padding.writer, first, _steps(padding.writer, offset, step, apart))
    view_of(padding, op.result, replace(lies, shape=shape, first=first))


def _is_for_products(op: Op, lies: Lies) -> bool:
    """True of the first columns of a tile, with all of its rows, that end within a piece: a product's assembly says how many they
    are."""
    columns = op.shape[-1]
    whole_rows = not any(op.offsets) and len(op.shape) == 2 and op.shape[0] == lies.shape[0] and not lies.turned
    return whole_rows and columns % lies.pieces.shape[1] != 0 and is_odd((columns, ))


def _steps(writer: Builder, offset: Value | int, step: int, apart: int) -> Value | int:
    """The number of pieces that an offset of elements leads on."""
    if isinstance(offset, int):
        return offset // step * apart
    number = writer.by_constant("sdiv", writer.cast_i32(writer.now(offset)), step)
    return _times(writer, number, apart)


@end("buffer_trans")
def buffer_trans(padding: Padding, op: Op) -> None:
    padding.made_of[op.result] = padding.pieces(op, op.buffer)
    padding.writer.env[op.result] = padding.writer.emit("buffer_trans", (padding.writer.now(op.buffer), op.order))
    lies = padding.lies.get(op.buffer)
    if lies is not None:
        padding.lies[op.result] = replace(lies, turned=lies.turned != (tuple(op.order) == (1, 0)))


@end("buffer_reinterpret")
def buffer_reinterpret(padding: Padding, op: Op) -> None:
    """The same extents, but for outermost ones, with elements of the same width: so are the pieces, or the padded buffer."""
    had, new = op.buffer.type, op.type
    extents = _without_ones(had.shape) == _without_ones(new.shape) and had.count == new.count
    if not extents or had.element.bits != new.element.bits or op.attrs.get("layout") is not None:
        raise refusal(op, "seen with another shape, width of elements or layout,", "give what is seen so a buffer of its own.")
    pieces, writer = padding.pieces(op, op.buffer), padding.writer
    padding.made_of[op.result] = pieces
    if pieces is None:
        writer.env[op.result] = _seen_as(writer, writer.now(op.buffer), padded_buffer(new))
        return
    lies = padding.lies[op.buffer]
    if lies.turned:
        raise refusal(op, "that is transposed,", "see it as another type first, and transpose then.")
    array = _seen_as(writer, lies.array, replace(lies.array.type, element=new.element))
    lies = view_of(padding, op.result, replace(lies, shape=_extents(new), array=array))
    if prod(lies.shape[:-2]) == 1:
        writer.env[op.result] = lies.straight or _first(writer, lies)


def _without_ones(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The extents without outermost ones."""
    first = next((at for at, extent in enumerate(shape[:-1]) if extent != 1), len(shape) - 1)
    return shape[first:]


def _seen_as(writer: Builder, buffer: Value, type_: Buffer) -> Value:
    return buffer if buffer.type == type_ else writer.emit("buffer_reinterpret", (buffer, type_), layout=None)
