"""Which program reads which keys, all in shares of one size: where every sequence is equally long, shares that end where tiles end.

Input: a `Problem` and a `Form`, as in schedule.py. Output: numbers of shares and units.
For example, 8 tiles of 128 units for 132 programs:

    shares = cut(1024, 128, 8, 132, 1, 0)       128 shares of 8 units, none of which is of two tiles
    share(3, shares)                            (24, 32)

A share is units one after the other, so at most two of its tiles are others' as well. A program less is no loss where memory is
the limit, and a tile that is one program's needs no sums of others. With DRAWN the last eighths of the units are for who comes
first, in as many shares again as there are programs.
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle

from .nouns import Piece
from .schedule import MUCH, blocks_of, length_of

SLACK = tl.constexpr(16)    # a unit more for so many of a share is worth it, if shares then end where tiles end


@tle.struct
class Shares:
    """Shares of `total` units: `each` for each of `workers` programs, up to number `fixed`, then `drawn` for who comes first."""

    total: Any
    workers: Any
    fixed: Any
    each: Any
    drawn: Any


@mimw.jit
def quotient(a, b):
    """a // b for 0 <= a < 2^22 (MOST_UNITS) and b > 0, by a third of the instructions that integers take."""
    found = (tl.cast(a, tl.float32) / tl.cast(b, tl.float32)).to(tl.int32)
    rest = a - found * b
    return found + tl.where(rest >= b, 1, tl.where(rest < 0, -1, 0))


@mimw.jit
def fitted(each, total, most, tiles):
    """`each`, the units of a share, or a few more if shares then end where tiles end: as many tiles a share, or shares a tile."""
    whole = each >= most
    small, large = tl.minimum(each, most), tl.maximum(each, most)
    count = quotient(large + tl.where(whole, small - 1, 0), small)
    nice = tl.where(whole, count * most, quotient(most + count - 1, count))
    return tl.where((total == tiles * most) & ((nice - each) * SLACK <= each), nice, each)


@mimw.jit
def cut(total, most, tiles, workers, LEAST: tl.constexpr, DRAWN: tl.constexpr):
    """Shares of `total` units, of which each of `tiles` tiles has `most` at most."""
    if DRAWN == 0:
        each = tl.maximum(quotient(total + workers - 1, workers), LEAST)
        return Shares(total, workers, total, fitted(each, total, most, tiles), 1)
    else:
        drawn = tl.where(total >= MUCH * workers, total // 8 * DRAWN, 0)
        each = tl.maximum(quotient(total - drawn + workers - 1, workers), LEAST)
        fixed = tl.minimum(each * workers, total)
        return Shares(total, workers, fixed, each, tl.maximum(quotient(total - fixed + workers - 1, workers), 1))


@mimw.jit
def share(number, shares):
    """(the first unit of a share, the first of the one after)."""
    own = tl.minimum(number * shares.each, shares.fixed)
    drawn = tl.minimum(shares.fixed + (number - shares.workers) * shares.drawn, shares.total)
    mine = number < shares.workers
    return (tl.where(mine, own, drawn),
            tl.where(mine, tl.minimum(own + shares.each, shares.fixed), tl.minimum(drawn + shares.drawn, shares.total)))


@mimw.jit
def shares_of(shares):
    """How many shares there are: one for each program, and those that are drawn."""
    return shares.workers + (shares.total - shares.fixed + shares.drawn - 1) // shares.drawn


@mimw.jit
def owner(unit, shares):
    """The share that has a unit."""
    return tl.where(unit < shares.fixed, quotient(unit, shares.each), shares.workers + (unit - shares.fixed) // shares.drawn)


@mimw.jit
def some_units(problem, first, unit, form):
    """(lengths, units of a tile) of BATCH sequences from number `first` on; 0 units for what is no sequence."""
    batch = first + tl.arange(0, form.BATCH)
    inside = batch < problem.batches
    length = tl.minimum(tl.maximum(tl.load(problem.lengths + batch, mask=inside, other=0), 0), problem.capacity)
    _, blocks = blocks_of(length, problem, form)
    return length, tl.where(inside, (blocks + unit - 1) // unit, 0)


@mimw.jit
def begin(number, workers, unit, problem, form):
    """(a share's first unit, the first of the one after, the first one's sequence, its length, its first unit, all shares). With
    ONCE there are BATCH sequences at most."""
    tiles = problem.tiles
    if form.ONCE:
        length, units = some_units(problem, 0, unit, form)
        ends, most = tl.cumsum(units, 0) * tiles, tl.max(units, 0)
        total = tl.max(ends, 0)
        shares = cut(total, most, problem.batches * tiles, workers, form.LEAST, form.DRAWN)
        at, end = share(number, shares)
        batch, start = tl.sum((ends <= at).to(tl.int32), 0), tl.max(tl.where(ends <= at, ends, 0), 0)
        length = tl.max(tl.where(tl.arange(0, form.BATCH) == batch, length, 0), 0)
        return at, end, batch, length, start, shares
    else:
        total, most = 0, 1
        for first in range(0, problem.batches, form.BATCH):
            _, units = some_units(problem, first, unit, form)
            total += tl.sum(units, 0) * tiles
            most = tl.maximum(most, tl.max(units, 0))
        shares = cut(total, most, problem.batches * tiles, workers, form.LEAST, form.DRAWN)
        at, end = share(number, shares)
        batch, start, before = 0, 0, 0
        for first in range(0, problem.batches, form.BATCH):
            _, units = some_units(problem, first, unit, form)
            ends = before + tl.cumsum(units, 0) * tiles
            over = (ends <= at) & (units > 0)
            batch += tl.sum(over.to(tl.int32), 0)
            start = tl.maximum(start, tl.max(tl.where(over, ends, 0), 0))
            before += tl.sum(units, 0) * tiles
        return at, end, batch, length_of(problem, tl.minimum(batch, problem.batches - 1)), start, shares


@mimw.jit
def span(at, end, start, length, unit, problem, form):
    """As schedule.py's, divided by `quotient`."""
    low, blocks = blocks_of(length, problem, form)
    units = (blocks + unit - 1) // unit
    tile = quotient(at - start, units)
    inside = at - start - tile * units
    count = tl.minimum(units - inside, end - at)
    first, stop = low + inside * unit, low + tl.minimum((inside + count) * unit, blocks)
    return Piece(tile, first, stop, at - inside, units, at + count, at + count == start + units * problem.tiles)
