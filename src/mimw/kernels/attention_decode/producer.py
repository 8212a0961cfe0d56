"""The producer of forms of few rows: all keys and values of its program's splits, in turn, and what other roles are told of them.

Input: descriptors of the caches, the lengths, and pipes. Output: blocks in a ring, items and endings in pipes. For example, as a
task of one warp:

    load(items.writer(), endings.writer(), ring.writer(), begun, caches, q, flags, per, columns, problem, form)

The launch may begin before the one ahead has ended. What that one may still write, lengths and pages, is only guessed from until it
has: the first blocks of the guess are asked for into L2, where they are what the memory holds whenever it is read. Behind the wait
some of them are loaded while the lengths are read again. If these differ, the blocks belong to an item that nobody wants, and the
program's share is found once more.
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle

from .attend import hint_rows
from .items import send, send_ending
from .keys import hint_item, load_item
from .nouns import Ending, Item
from .splits import Ends, Splits, cut, ends_of, keys_of, lengths_differ, owner, sequence_at, split, splits_of
from .units import blocks_of, lowest_key, next_split, quotient, unit_of


@tle.struct
class Shares:
    """The split of all keys: blocks of a unit, ends of sequences, splits."""

    unit: Any
    seen: Ends
    splits: Splits


@tle.struct
class Spot:
    """A place in a split: its next unit, its end, the tile and the sequence of the unit, and where their units begin."""

    at: Any
    end: Any
    tile: Any
    batch: Any
    start: Any


@mimw.jit
def shares_of(per, columns, problem, form):
    """The split of all keys over programs."""
    unit = unit_of(problem, form)
    seen = ends_of(unit, problem, form)
    together = quotient(problem.tiles, columns)     # heads of a column
    splits = cut(seen.total * together, seen.most, problem.batches * together, per, columns, form.LEAST, form.DRAWN)
    return Shares(unit, seen, splits)


@mimw.jit
def beginning(number, shares, problem, form):
    """The first place of a split."""
    at, end = split(number, shares.splits)
    tile = quotient(at, shares.seen.total)
    batch, start = sequence_at(at - tile * shares.seen.total, shares.seen, shares.unit, problem, form)
    return Spot(at, end, tile, batch, start + tile * shares.seen.total)


@mimw.jit
def piece_at(spot, part, shares, problem, form):
    """(the item of a split's next tile, which is part number `part` if it is not all of it, the units of its sequence, the unit
    behind it)."""
    length = keys_of(spot.batch, shares.seen, problem, form)
    low, blocks = blocks_of(length, problem, form)
    units = (blocks + shares.unit - 1) // shares.unit
    following = tl.minimum(spot.start + units, spot.end)
    first, stop = low + (spot.at - spot.start) * shares.unit, low + tl.minimum((following - spot.start) * shares.unit, blocks)
    alone = (spot.at == spot.start) & (following == spot.start + units)
    return Item(spot.batch, spot.tile, first, stop, tl.where(alone, -1, part), length), units, following


@mimw.jit
def behind(spot, units, following, problem):
    """The place behind a piece."""
    over = following == spot.start + units
    batch = spot.batch + over.to(tl.int32)
    wrapped = batch == problem.batches
    return Spot(following, spot.end, spot.tile + wrapped.to(tl.int32), tl.where(wrapped, 0, batch),
                tl.where(over, following, spot.start))


@mimw.jit
def ending_of(spot, units, columns, splits):
    """The splits that have keys of a place's tile."""
    of_first, of_last = owner(spot.start, splits), owner(spot.start + units - 1, splits)
    begins, _ = split(of_first, splits)
    return Ending(of_first, quotient(of_last - of_first, columns) + 1, (begins < spot.start).to(tl.int32))


@mimw.jit
def guessed(spot, shares, problem, form, AHEAD: tl.constexpr):
    """(the first item of a split, that nobody wants yet, the first AHEAD blocks of it); no blocks of an empty split."""
    item, _, _ = piece_at(spot, -2, shares, problem, form)
    stop = tl.where(spot.at < spot.end, item.stop, item.first)
    some = Item(item.batch, item.tile, item.first, tl.minimum(item.first + AHEAD, stop), -2, item.length)
    return Item(item.batch, item.tile, item.first, stop, -2, item.length), some


@mimw.jit
def hint(caches, q, item, blocks, problem, form, MANY: tl.constexpr):
    """The queries and the first MANY blocks of an item to L2, if the split has few: of many they only come in between."""
    if (item.first < item.stop) & (blocks <= 32):
        hint_rows(q, item.batch, item.tile, problem, form)
        hint_item(caches, item, lowest_key(item.length, problem), form, MANY)


@mimw.jit
def begin(items, endings, ring, caches, q, per, columns, problem, form, AHEAD: tl.constexpr):
    """(the split of all keys, this program's first place, loaded blocks, how many of them are its first ones, items that were
    sent), when the launches ahead have ended."""
    number, chunk, ahead, turn = tl.program_id(0), 0, 0, 0
    if form.ONCE:
        shares = shares_of(per, columns, problem, form)
        spot = beginning(number, shares, problem, form)
        item, some = guessed(spot, shares, problem, form, AHEAD)
        hint(caches, q, item, (spot.end - spot.at) * shares.unit, problem, form, ring.capacity)
        tl.extra.cuda.gdc_wait()
        differ = lengths_differ(shares.seen, problem, form)
        chunk = load_item(ring, None, chunk, caches, some, some.tile, lowest_key(some.length, problem), form)
        ahead = chunk
        if differ:
            if chunk > 0:
                send(items, turn, some)
                send_ending(endings, turn, Ending(0, 0, 0))
                turn += 1
            ahead = 0
            shares = shares_of(per, columns, problem, form)
            spot = beginning(number, shares, problem, form)
    else:
        tl.extra.cuda.gdc_wait()
        shares = shares_of(per, columns, problem, form)
        spot = beginning(number, shares, problem, form)
    return shares, spot, chunk, ahead, turn


@mimw.jit
def load(items, endings, ring, begun, caches, q, flags, per, columns, problem, form):
    """Keys and values of this program's blocks, in turn. The pages of a block are looked up while the one before is loaded."""
    AHEAD: tl.constexpr = min(2, ring.capacity)     # blocks that go in front of the lengths and the first queries
    shares, spot, chunk, ahead, turn = begin(items, endings, ring, caches, q, per, columns, problem, form, AHEAD)
    workers = tl.num_programs(0)
    number, count = tl.program_id(0), workers
    while number < count:
        part = 0
        while spot.at < spot.end:
            item, units, following = piece_at(spot, number * 2 + part, shares, problem, form)
            send(items, turn, item)
            hint_rows(q, item.batch, item.tile, problem, form)
            rest = Item(item.batch, item.tile, item.first + ahead, item.stop, item.part, item.length)
            chunk = load_item(ring, begun, chunk, caches, rest, item.tile, lowest_key(item.length, problem), form, AHEAD)
            send_ending(endings, turn, ending_of(spot, units, columns, shares.splits))
            spot = behind(spot, units, following, problem)
            turn += 1
            ahead, part = 0, 1
        number, count = next_split(flags, splits_of(shares.splits), workers, form.DRAWN)
        if number < count:
            spot = beginning(number, shares, problem, form)
    send(items, turn, Item(0, 0, 0, 0, 0, 0))
