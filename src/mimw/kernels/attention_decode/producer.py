"""The producer of forms of few rows: all keys and values of its program's splits, in turn, and what the other roles are told of them.

Input: descriptors of the caches, the lengths, and pipes. Output: blocks in a ring, items and endings in pipes. For example, as a
task of one warp:

    load(items.writer(), endings.writer(), ring.writer(), begun, caches, q, flags, per, columns, problem, form)

The launch may begin before the one ahead has ended. What that one may still write, lengths and pages, is only guessed from until it
has: the first blocks of the guess are asked for into L2, where they are what the memory holds whenever it is read. A guess that
turns out right saves the time of finding the share.
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
    """The place in a split: its next unit, its end, the tile and the sequence of the unit, and where their units begin."""

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
    """The place where a split begins."""
    at, end = split(number, shares.splits)
    tile = quotient(at, shares.seen.total)
    batch, start = sequence_at(at - tile * shares.seen.total, shares.seen, shares.unit, problem, form)
    return Spot(at, end, tile, batch, start + tile * shares.seen.total)


@mimw.jit
def piece_at(spot, part, shares, problem, form):
    """(the item of a split's next tile, which would be part number `part`, the units of its sequence, where the split goes on)."""
    length = keys_of(spot.batch, shares.seen, problem, form)
    low, blocks = blocks_of(length, problem, form)
    units = (blocks + shares.unit - 1) // shares.unit
    following = tl.minimum(spot.start + units, spot.end)
    first, stop = low + (spot.at - spot.start) * shares.unit, low + tl.minimum((following - spot.start) * shares.unit, blocks)
    alone = (spot.at == spot.start) & (following == spot.start + units)
    return Item(spot.batch, spot.tile, first, stop, tl.where(alone, -1, part), length), units, following


@mimw.jit
def first_blocks(spot, caches, shares, problem, form):
    """The first EAGER blocks of a split, which belong to no item yet."""
    item, _, _ = piece_at(spot, -2, shares, problem, form)
    stop = tl.where(spot.at < spot.end, tl.minimum(item.first + caches.eager, item.stop), item.first)
    return Item(item.batch, item.tile, item.first, stop, -2, item.length)


@mimw.jit
def hint(caches, q, spot, shares, problem, form):
    """The first blocks of this program's first item, and its queries, to L2."""
    if spot.at < spot.end:
        item, _, _ = piece_at(spot, 0, shares, problem, form)
        hint_rows(q, item.batch, item.tile, problem, form)
        hint_item(caches, item, lowest_key(item.length, problem), form)


@mimw.jit
def load(items, endings, ring, begun, caches, q, flags, per, columns, problem, form):
    """Keys and values of this program's blocks, in turn. The pages of a block are looked up while the one before is loaded."""
    workers = tl.num_programs(0)
    chunk, turn, ahead, number, count = 0, 0, 0, tl.program_id(0), workers
    if form.ONCE:
        shares = shares_of(per, columns, problem, form)
        spot = beginning(number, shares, problem, form)
        hint(caches, q, spot, shares, problem, form)
        guess = first_blocks(spot, caches, shares, problem, form)
        tl.extra.cuda.gdc_wait()
        differ = lengths_differ(shares.seen, problem, form)
        chunk = load_item(ring, begun, chunk, caches, guess, guess.tile, lowest_key(guess.length, problem), form)
        ahead = chunk
        if differ:
            if ahead > 0:
                send(items, turn, guess)
                send_ending(endings, turn, Ending(0, 0, 0))
                turn += 1
            ahead = 0
            shares = shares_of(per, columns, problem, form)
            spot = beginning(number, shares, problem, form)
    else:
        tl.extra.cuda.gdc_wait()
        shares = shares_of(per, columns, problem, form)
        spot = beginning(number, shares, problem, form)
    while number < count:
        part = 0
        while spot.at < spot.end:
            item, units, following = piece_at(spot, number * 2 + part, shares, problem, form)
            send(items, turn, item)
            hint_rows(q, item.batch, item.tile, problem, form)
            rest = Item(item.batch, item.tile, item.first + ahead, item.stop, item.part, item.length)
            chunk = load_item(ring, begun, chunk, caches, rest, item.tile, lowest_key(item.length, problem), form)
            ahead = 0
            of_first = owner(spot.start, shares.splits)
            of_last = owner(spot.start + units - 1, shares.splits)
            begins, _ = split(of_first, shares.splits)
            among = quotient(of_last - of_first, columns) + 1
            send_ending(endings, turn, Ending(of_first, among, (begins < spot.start).to(tl.int32)))
            over = following == spot.start + units
            batch = spot.batch + over.to(tl.int32)
            wrapped = batch == problem.batches
            spot = Spot(following, spot.end, spot.tile + wrapped.to(tl.int32), tl.where(wrapped, 0, batch),
                        tl.where(over, following, spot.start))
            turn += 1
            part = 1
        number, count = next_split(flags, splits_of(shares.splits), workers, form.DRAWN)
        if number < count:
            spot = beginning(number, shares, problem, form)
    send(items, turn, Item(0, 0, 0, 0, 0, 0))
