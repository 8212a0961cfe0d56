"""Units of work: blocks of keys of a tile, counted on the device, which alone knows how long sequences are.

Input: a `Problem`, and in a `Form` how keys are cut (nouns.py). Output: numbers of keys, blocks and units. For example, with
BN = 64, a length of 300, and no bound:

    blocks_of(300, problem, form)           (0, 5): from block 0 on, 5 blocks
    some_units(problem, 0, 2, form)[1]      3 for this sequence: units of two blocks, the last one not whole

A tile is the rows that one worker holds: queries of the heads that share a head of K and V. A unit is `unit` blocks of BN keys of
one tile. A split is the units of one worker, one after the other: the end of one tile's keys, then whole tiles, then the beginning
of one. So at most two of its tiles are others' as well.

A sequence without keys has one block that nobody sees, so that somebody writes its zeros.
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle

MUCH = tl.constexpr(16)     # units of a worker from which on some are drawn
SLACK = tl.constexpr(16)    # a unit more for so many of a split is worth it, if splits then end where tiles end


@mimw.jit
def clamped(length, problem):
    """Numbers of keys that count; what is not in a sequence's cache does not."""
    return tl.minimum(tl.maximum(length, 0), problem.capacity)


@mimw.jit
def length_of(problem, batch):
    """The number of keys of a sequence."""
    return clamped(tl.load(problem.lengths + batch), problem)


@mimw.jit
def lowest_key(length, problem):
    """The first key that the first query sees."""
    if problem.left is None:
        return length * 0
    else:
        return tl.maximum(length - problem.queries - problem.left, 0)


@mimw.jit
def blocks_of(length, problem, form):
    """(the number of the first block of keys that a sequence's queries look at, the number of blocks that they look at)."""
    low = lowest_key(length, problem) // form.BN
    return low, tl.maximum((length + form.BN - 1) // form.BN - low, 1)


@mimw.jit
def some_blocks(problem, first, form):
    """The blocks of BATCH sequences from number `first` on, 0 for what is no sequence."""
    batch = first + tl.arange(0, form.BATCH)
    inside = batch < problem.batches
    length = clamped(tl.load(problem.lengths + batch, mask=inside, other=0, cache_modifier=".cg"), problem)
    _, blocks = blocks_of(length, problem, form)
    return tl.where(inside, blocks, 0)


@mimw.jit
def some_units(problem, first, unit, form):
    """(lengths, units of a tile) of BATCH sequences from number `first` on; 0 units for what is no sequence."""
    batch = first + tl.arange(0, form.BATCH)
    inside = batch < problem.batches
    length = clamped(tl.load(problem.lengths + batch, mask=inside, other=0, cache_modifier=".cg"), problem)
    _, blocks = blocks_of(length, problem, form)
    return length, tl.where(inside, (blocks + unit - 1) // unit, 0)


@mimw.jit
def unit_of(problem, form):
    """Blocks of a unit: 1, or so many that no sequence has more than `splits` units."""
    if problem.splits is None:
        return 1
    else:
        most = 1
        for first in range(0, problem.batches, form.BATCH):
            most = tl.maximum(most, tl.max(some_blocks(problem, first, form), 0))
        return (most + problem.splits - 1) // problem.splits


@tle.struct
class Place:
    """The sequence that a unit is of, and the number of that sequence's first unit."""

    batch: Any
    start: Any


@mimw.jit
def moved(place, at, ends, units):
    """The place of unit number `at` behind those of some more sequences' `units` that end in front of it."""
    over = (ends <= at) & (units > 0)
    batch = place.batch + tl.sum(over.to(tl.int32), 0)
    return Place(batch, tl.maximum(place.start, tl.max(tl.where(over, ends, 0), 0)))


@mimw.jit
def quotient(a, b):
    """a // b for 0 <= a < 2^22 (MOST_UNITS) and b > 0, by a third of the instructions that integers take."""
    found = (tl.cast(a, tl.float32) / tl.cast(b, tl.float32)).to(tl.int32)
    rest = a - found * b
    return found + tl.where(rest >= b, 1, tl.where(rest < 0, -1, 0))


@mimw.jit
def fitted(each, total, most, tiles):
    """`each`, the units of a split, or a few more if splits then end where tiles end: as many tiles a split, or splits a tile."""
    whole = each >= most
    small, large = tl.minimum(each, most), tl.maximum(each, most)
    count = quotient(large + tl.where(whole, small - 1, 0), small)
    nice = tl.where(whole, count * most, quotient(most + count - 1, count))
    return tl.where((total == tiles * most) & ((nice - each) * SLACK <= each), nice, each)


@mimw.jit
def next_split(counter, splits, workers, DRAWN: tl.constexpr):
    """(the number of the split that a worker takes behind its own, how many there are), twice the same if none is left: with DRAWN
    there are `splits`, else one for each worker."""
    if DRAWN == 0:
        return workers, workers
    else:
        number = splits
        if splits > workers:
            number = steal(counter, splits, workers)
        return number, splits


@mimw.jit
def steal(counter, splits, workers):
    """The number of the next split, `splits` or more if none is left. Whoever draws last puts the counter back to 0."""
    drawn = tl.atomic_add(counter, 1, sem="relaxed")
    if drawn == splits - 1:
        tl.atomic_xchg(counter, 0, sem="relaxed")
    return drawn + workers
