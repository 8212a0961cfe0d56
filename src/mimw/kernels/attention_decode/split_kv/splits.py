"""The split of all blocks of all sequences over workers: equal shares, of lengths that only the device knows.

Input: a `Problem`, and in a `Form` how keys are cut (../nouns.py). Output: numbers of units, and what they stand for. For
example, with BN = 64, one tile, lengths 100 and 300 and no bound:

    units_of(problem, 0, 1, form)       2 5 0 0 ..: units of one block
    begin(1, 3, 1, problem, form)       (3, 5, 1, 2, 7): of 3 workers number 1 has units 3 and 4 of 7; number 3 is of sequence 1,
                                        whose units begin with number 2

Units (../units.py) are counted sequence by sequence, in a sequence tile by tile, in a tile from its first block on.
"""

import triton.language as tl

import mimw

from ..nouns import Piece
from ..units import MUCH, Place, blocks_of, moved, some_blocks


@mimw.jit
def units_of(problem, first, unit, form):
    """The units of BATCH sequences from number `first` on."""
    return (some_blocks(problem, first, form) + unit - 1) // unit * problem.tiles


@mimw.jit
def used(fixed, workers, LEAST: tl.constexpr):
    """The workers that have something to do from the start: LEAST units each, if possible."""
    return tl.maximum(tl.minimum((fixed + LEAST - 1) // LEAST, workers), 1)


@mimw.jit
def cut(total, workers, DRAWN: tl.constexpr):
    """(units that the workers have from the start, units that one draws at a time). SMs are not equally fast at reading:
    the last DRAWN eighths of the units go to who comes first, in as many pieces as there are workers, where there is much."""
    if DRAWN == 0:
        return total, 1
    else:
        drawn = tl.where(total >= MUCH * workers, total // 8 * DRAWN, 0)
        return total - drawn, tl.maximum((drawn + workers - 1) // workers, 1)


@mimw.jit
def splits_of(total, workers, DRAWN: tl.constexpr):
    """The number of splits: one for each worker, and those that are drawn."""
    fixed, size = cut(total, workers, DRAWN)
    return workers + (total - fixed + size - 1) // size


@mimw.jit
def split(number, total, workers, LEAST: tl.constexpr, DRAWN: tl.constexpr):
    """(the first unit of a split, the first of the one after)."""
    fixed, size = cut(total, workers, DRAWN)
    busy = used(fixed, workers, LEAST)
    each, more = fixed // busy, fixed % busy      # the first `more` workers have one unit more
    first = tl.minimum(number, busy) * each + tl.minimum(number, more)
    stop = tl.minimum(number + 1, busy) * each + tl.minimum(number + 1, more)
    if DRAWN == 0:
        return first, stop
    else:
        drawn = fixed + (number - workers) * size
        return tl.where(number < workers, first, drawn), tl.where(number < workers, stop, tl.minimum(drawn + size, total))


@mimw.jit
def owner(unit, total, workers, LEAST: tl.constexpr, DRAWN: tl.constexpr):
    """The split that has a unit."""
    fixed, size = cut(total, workers, DRAWN)
    busy = used(fixed, workers, LEAST)
    each, more = fixed // busy, fixed % busy
    whole = more * (each + 1)
    found = tl.where(unit < whole, unit // (each + 1), more + (unit - whole) // tl.maximum(each, 1))
    return found if DRAWN == 0 else tl.where(unit < fixed, found, workers + (unit - fixed) // size)


@mimw.jit
def sequence_of(at, unit, problem, form):
    """The sequence that unit number `at` is of, and the number of that one's first unit."""
    place, before = Place(at * 0, at * 0), 0
    for first in range(0, problem.batches, form.BATCH):
        units = units_of(problem, first, unit, form)
        place = moved(place, at, before + tl.cumsum(units, 0), units)
        before += tl.sum(units, 0)
    return place


@mimw.jit
def begin(number, workers, unit, problem, form):
    """(a split's first unit, the first of the one after, the first one's sequence, that sequence's first unit, all units).
    With ONCE there are BATCH sequences at most."""
    if form.ONCE:
        units = units_of(problem, 0, unit, form)
        ends, total = tl.cumsum(units, 0), tl.sum(units, 0)
        at, end = split(number, total, workers, form.LEAST, form.DRAWN)
        over = (ends <= at) & (units > 0)
        place = Place(tl.sum(over.to(tl.int32), 0), tl.max(tl.where(over, ends, 0), 0))
    else:
        total = 0
        for first in range(0, problem.batches, form.BATCH):
            total += tl.sum(units_of(problem, first, unit, form), 0)
        at, end = split(number, total, workers, form.LEAST, form.DRAWN)
        place = sequence_of(at, unit, problem, form)
    return at, end, place.batch, place.start, total


@mimw.jit
def span(at, end, start, length, unit, problem, form):
    """The piece that comes first of a worker's units from `at` to `end`, where the sequence's units begin with number `start`."""
    low, blocks = blocks_of(length, problem, form)
    units = (blocks + unit - 1) // unit
    tile = (at - start) // units
    inside = at - start - tile * units
    count = tl.minimum(units - inside, end - at)
    first, stop = low + inside * unit, low + tl.minimum((inside + count) * unit, blocks)
    return Piece(tile, first, stop, at - inside, units, at + count, at + count == start + units * problem.tiles)
