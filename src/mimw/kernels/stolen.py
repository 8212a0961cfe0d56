"""Tiles that programs steal from a counter, instead of having equal shares: who begins late, or is slow, gets fewer.

Input: an int32 that is 0, and the pipe `order`, by which a producer sends its consumers the numbers of its tiles. Output: the
counter is 0 again. For example:

    load_stolen(loader, source, order, counter)         in the producer: chunk = loader.load(chunk, place) for each of its tiles
    tile = first_tile(order)                            in a consumer
    tile = next_tile(tile, order, turn)                 the one behind it, number `turn`; source.count() where there is none

The first tile of a program is that of its number, and without a counter the next ones are `programs` apart. Where consumers take
turns, a program steals TURNS neighbouring tiles at a time, and a number is that of such a draw: `draws(source, TURNS)` in all.
"""

import triton.language as tl

import mimw
import mimw.tle as tle

from .consumers import consumers


@mimw.jit
def order_pipe(counter, CONSUMERS: tl.constexpr):
    """The pipe by which consumers receive numbers of tiles; None where there is no counter."""
    if counter is None:
        return None
    return tle.pipe(capacity=2, readers=consumers(CONSUMERS), name="order", tile=tle.gpu.alloc([2, 1], tl.int32))


@mimw.jit
def put_back(counter, stolen, tiles):
    """The program that has stolen last makes the counter 0 again: each draw that is begun steals once."""
    if stolen == tiles - 1:
        tl.atomic_xchg(counter, 0, sem="relaxed")


@mimw.jit
def send(order, turn, tile):
    """All consumers receive which tile is number `turn` of this program's."""
    slot = order.acquire(turn)
    tl.store(tle.gpu.local_ptr(slot.tile), tl.full((1, ), 0, tl.int32) + tile)
    order.commit(turn)


@mimw.jit
def received(order, turn):
    """The tile that is number `turn` of this program's."""
    tile = tl.sum(tl.load(tle.gpu.local_ptr(order.wait(turn).slot.tile)))
    order.release(turn)
    return tile


@mimw.jit
def first_tile(order):
    """A consumer's first tile."""
    return tl.program_id(0) if order is None else received(order, 0)


@mimw.jit
def next_tile(tile, order, turn):
    """The tile behind this one, number `turn` of the program's."""
    return tile + tl.num_programs(0) if order is None else received(order, turn)


@mimw.jit
def draws(source, TURNS: tl.constexpr):
    """So many times TURNS neighbouring tiles; the last ones may be fewer."""
    return source.count() if TURNS == 1 else tl.cdiv(source.count(), TURNS)


@mimw.jit
def load_stolen(loader, source, order, counter, TURNS: tl.constexpr = 1):
    """All tiles of this program; the next ones are stolen when some begin, and are on their way while those are asked for."""
    tiles = draws(source, TURNS)
    tile = tl.program_id(0)
    turn, chunk = 0, 0
    while tile < tiles:
        at = source.at(tile if TURNS == 1 else tile * TURNS)
        if counter is not None:
            send(order, turn, tile)
            stolen = tl.atomic_add(counter, 1, sem="relaxed")
        chunk = loader.load(chunk, at)
        for other in tl.static_range(1, TURNS):
            if tile * TURNS + other < source.count():
                chunk = loader.load(chunk, source.at(tile * TURNS + other))
        turn += 1
        if counter is None:
            tile += tl.num_programs(0)
        else:
            put_back(counter, stolen, tiles)
            tile = tl.num_programs(0) + stolen
    if counter is not None:
        send(order, turn, tiles)
