"""Tiles that programs draw from a counter, instead of having equal shares: who begins late, or is slow, gets fewer.

Input: an int32 that is 0, and the pipe `order`, by which a producer tells its consumers its tiles. Output: the counter is 0 again.
For example, of a producer, whose first tile is that of its number:

    while tile < tiles:
        tell(order, turn, tile)
        drawn = tl.atomic_add(counter, 1, sem="relaxed")        on its way while this tile is loaded
        ...
        put_back(counter, drawn, tiles)
        tile, turn = tl.num_programs(0) + drawn, turn + 1
    tell(order, turn, tiles)                                    there is no more

and of a consumer: `tile = hear(order, 0)`, and after each tile the next one.
"""

import triton.language as tl

import mimw
import mimw.tle as tle


@mimw.jit
def put_back(counter, drawn, tiles):
    """Who has drawn last makes the counter 0 again: each tile that is begun draws once."""
    if drawn == tiles - 1:
        tl.atomic_xchg(counter, 0, sem="relaxed")


@mimw.jit
def tell(order, turn, tile):
    """All consumers hear which tile is number `turn` of this program's."""
    slot = order.acquire(turn)
    tl.store(tle.gpu.local_ptr(slot.tile), tl.full((1, ), 0, tl.int32) + tile)
    order.commit(turn)


@mimw.jit
def hear(order, turn):
    """The tile that is number `turn` of this program's."""
    tile = tl.sum(tl.load(tle.gpu.local_ptr(order.wait(turn).slot.tile)))
    order.release(turn)
    return tile
