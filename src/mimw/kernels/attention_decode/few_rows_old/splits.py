"""The split of all keys over programs in splits of one size, which end where tiles end if every sequence is equally long.

Input: a `Problem` and a `Form` (../nouns.py). Output: numbers of splits and units (../units.py).
For example, 8 tiles of 128 units for 132 programs:

    splits = cut(1024, 128, 8, 132, 1, 0)       128 splits of 8 units, none of which is of two tiles
    split(3, splits)                            (24, 32)

A split is units one after the other, so at most two of its tiles are others' as well. A program less is no loss where memory is
the limit, and a tile that is one program's needs no sums of others. With DRAWN the last eighths of the units are for who comes
first, in as many splits again as there are programs.
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle

from ..nouns import Piece
from ..units import MUCH, Place, blocks_of, fitted, length_of, moved, quotient, some_units


@tle.struct
class Splits:
    """Splits of `total` units: `each` for each of `workers` programs, up to number `fixed`, then `drawn` for who comes first."""

    total: Any
    workers: Any
    fixed: Any
    each: Any
    drawn: Any


@mimw.jit
def cut(total, most, tiles, workers, LEAST: tl.constexpr, DRAWN: tl.constexpr):
    """Splits of `total` units, of which each of `tiles` tiles has `most` at most."""
    if DRAWN == 0:
        each = tl.maximum(quotient(total + workers - 1, workers), LEAST)
        return Splits(total, workers, total, fitted(each, total, most, tiles), 1)
    else:
        drawn = tl.where(total >= MUCH * workers, total // 8 * DRAWN, 0)
        each = tl.maximum(quotient(total - drawn + workers - 1, workers), LEAST)
        fixed = tl.minimum(each * workers, total)
        return Splits(total, workers, fixed, each, tl.maximum(quotient(total - fixed + workers - 1, workers), 1))


@mimw.jit
def split(number, splits):
    """(the first unit of a split, the first of the one after)."""
    own = tl.minimum(number * splits.each, splits.fixed)
    drawn = tl.minimum(splits.fixed + (number - splits.workers) * splits.drawn, splits.total)
    mine = number < splits.workers
    return (tl.where(mine, own, drawn),
            tl.where(mine, tl.minimum(own + splits.each, splits.fixed), tl.minimum(drawn + splits.drawn, splits.total)))


@mimw.jit
def splits_of(splits):
    """The number of splits: one for each program, and those that are drawn."""
    return splits.workers + (splits.total - splits.fixed + splits.drawn - 1) // splits.drawn


@mimw.jit
def owner(unit, splits):
    """The split that has a unit."""
    return tl.where(unit < splits.fixed, quotient(unit, splits.each), splits.workers + (unit - splits.fixed) // splits.drawn)


@mimw.jit
def begin(number, workers, unit, problem, form):
    """(a split's first unit, the first of the one after, the first one's sequence, its length, its first unit, all splits). With
    ONCE there are BATCH sequences at most."""
    tiles = problem.tiles
    if form.ONCE:
        length, units = some_units(problem, 0, unit, form)
        ends, most = tl.cumsum(units, 0) * tiles, tl.max(units, 0)
        total = tl.max(ends, 0)
        splits = cut(total, most, problem.batches * tiles, workers, form.LEAST, form.DRAWN)
        at, end = split(number, splits)
        batch, start = tl.sum((ends <= at).to(tl.int32), 0), tl.max(tl.where(ends <= at, ends, 0), 0)
        length = tl.max(tl.where(tl.arange(0, form.BATCH) == batch, length, 0), 0)
        return at, end, batch, length, start, splits
    else:
        total, most = 0, 1
        for first in range(0, problem.batches, form.BATCH):
            _, units = some_units(problem, first, unit, form)
            total += tl.sum(units, 0) * tiles
            most = tl.maximum(most, tl.max(units, 0))
        splits = cut(total, most, problem.batches * tiles, workers, form.LEAST, form.DRAWN)
        at, end = split(number, splits)
        place, before = Place(0, 0), 0
        for first in range(0, problem.batches, form.BATCH):
            _, units = some_units(problem, first, unit, form)
            place = moved(place, at, before + tl.cumsum(units, 0) * tiles, units)
            before += tl.sum(units, 0) * tiles
        return at, end, place.batch, length_of(problem, tl.minimum(place.batch, problem.batches - 1)), place.start, splits


@mimw.jit
def span(at, end, start, length, unit, problem, form):
    """The piece that comes first of a program's units from `at` to `end`, where the sequence's units begin with number `start`."""
    low, blocks = blocks_of(length, problem, form)
    units = (blocks + unit - 1) // unit
    tile = quotient(at - start, units)
    inside = at - start - tile * units
    count = tl.minimum(units - inside, end - at)
    first, stop = low + inside * unit, low + tl.minimum((inside + count) * unit, blocks)
    return Piece(tile, first, stop, at - inside, units, at + count, at + count == start + units * problem.tiles)
