"""Work items, and the splits that share their tiles, as pipes from the producer to the other roles.

Input: an `Item` or an `Ending` (nouns.py). Output: the same for each reader of the pipe. For example:

    items = item_pipe(("consumer", ))
    send(items.writer(), turn, Item(batch, tile, first, stop, part, length))
    item = received(items.reader("consumer"), turn)
"""

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from .nouns import Ending, Item


@mimw.jit
def item_pipe(readers: tl.constexpr):
    """A pipe of items, of which two may be on their way."""
    return tle.pipe(capacity=2, readers=readers, name="items", batch=tle.gpu.alloc([2, 1], tl.int32),
                    tile=tle.gpu.alloc([2, 1], tl.int32), first=tle.gpu.alloc([2, 1], tl.int32),
                    stop=tle.gpu.alloc([2, 1], tl.int32), part=tle.gpu.alloc([2, 1], tl.int32),
                    length=tle.gpu.alloc([2, 1], tl.int32))


@mimw.jit
def ending_pipe(readers: tl.constexpr):
    """A pipe of endings, one for each item."""
    return tle.pipe(capacity=2, readers=readers, name="endings", first=tle.gpu.alloc([2, 1], tl.int32),
                    count=tle.gpu.alloc([2, 1], tl.int32), place=tle.gpu.alloc([2, 1], tl.int32))


@mimw.jit
def item_of(piece, batch, at, number, part, length):
    """The item of a piece, which is part number `part` of split `number` and begins with unit `at`."""
    alone = (at == piece.whole) & (piece.following == piece.whole + piece.units)
    return Item(batch, piece.tile, piece.first, piece.stop, tl.where(alone, -1, number * 2 + part), length)


@mimw.jit
def put(buffer, number):
    """One number, to a buffer of one."""
    tlx.local_store(buffer, tl.full((1, ), number, tl.int32))


@mimw.jit
def got(buffer):
    """The number in a buffer of one."""
    return tl.max(tlx.local_load(buffer), 0)


@mimw.jit
def send(items, turn, item):
    """Item number `turn`, for all readers."""
    slot = items.acquire(turn)
    put(slot.batch, item.batch)
    put(slot.tile, item.tile)
    put(slot.first, item.first)
    put(slot.stop, item.stop)
    put(slot.part, item.part)
    put(slot.length, item.length)
    items.commit(turn)


@mimw.jit
def received(items, turn):
    """Item number `turn`; behind the last item is one without blocks."""
    slot = items.wait(turn).slot
    item = Item(got(slot.batch), got(slot.tile), got(slot.first), got(slot.stop), got(slot.part), got(slot.length))
    items.release(turn)
    return item


@mimw.jit
def send_ending(endings, turn, ending):
    """The splits that have keys of the tile of item number `turn`."""
    slot = endings.acquire(turn)
    put(slot.first, ending.first)
    put(slot.count, ending.count)
    put(slot.place, ending.place)
    endings.commit(turn)


@mimw.jit
def received_ending(endings, turn):
    """The ending that `send_ending` sent."""
    slot = endings.wait(turn).slot
    ending = Ending(got(slot.first), got(slot.count), got(slot.place))
    endings.release(turn)
    return ending
