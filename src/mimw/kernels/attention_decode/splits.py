"""The split of all keys over programs head by head: splits of one size, heads side by side, cut where sequences end.

Input: a `Problem` and a `Form` (../nouns.py). Output: numbers of splits and units (../units.py).
For example, one sequence of 128 units, 8 heads of keys, 132 programs: 16 for each head, `per`, who are number c, c + 8, c + 16, ..

    splits = cut(128, 128, 1, 16, 8, 1, 0)      splits of 8 units
    split(11, splits)                           (392, 400): of 1024 units number 3 * 128 + 8, the second split of head 3

Units are counted head by head, in a head sequence by sequence, in a sequence from its first block on. The units of a head are a
column, which has programs of its own: so those of all heads read the same keys at the same time, whatever the lengths are, and
what lies side by side in memory is read at once. Heads that no number of programs suits are one column together.

A split is units one after the other, so at most two of its tiles are others' as well. With DRAWN the last eighths of the units are
for who comes first, in PIECES splits for each program, of SMALLEST units or more: each wants queries, and writes sums.
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle

from .units import MUCH, Place, fitted, length_of, moved, quotient, some_units

PIECES, SMALLEST = tl.constexpr(4), tl.constexpr(4)


@tle.struct
class Splits:
    """Splits of `columns` columns of `length` units: `each` for each of `per` programs, up to number `fixed`, then `drawn` for who
    comes first."""

    length: Any
    per: Any
    columns: Any
    fixed: Any
    each: Any
    drawn: Any


@tle.struct
class Ends:
    """Units of a head and of its longest sequence; with ONCE lengths of sequences, and the units where they end."""

    total: Any
    most: Any
    lengths: Any
    ends: Any


@mimw.jit
def cut(length, most, tiles, per, columns, LEAST: tl.constexpr, DRAWN: tl.constexpr):
    """Splits of columns of `length` units and `tiles` tiles, each of `most` units at most, and `per` programs."""
    if DRAWN == 0:
        each = tl.maximum(quotient(length + per - 1, per), LEAST)
        return Splits(length, per, columns, length, fitted(each, length, most, tiles), length * 0 + 1)
    else:
        drawn = tl.where(length >= MUCH * per, length // 8 * DRAWN, 0)
        each = tl.maximum(quotient(length - drawn + per - 1, per), LEAST)
        fixed = tl.minimum(each * per, length)
        size = tl.maximum(quotient(length - fixed + PIECES * per - 1, PIECES * per), SMALLEST)
        return Splits(length, per, columns, fixed, each, size)


@mimw.jit
def split(number, splits):
    """(the first unit of a split, the first of the one after)."""
    row = quotient(number, splits.columns)
    own = tl.minimum(row * splits.each, splits.fixed)
    drawn = tl.minimum(splits.fixed + (row - splits.per) * splits.drawn, splits.length)
    first = tl.where(row < splits.per, own, drawn)
    stop = tl.where(row < splits.per, tl.minimum(own + splits.each, splits.fixed), tl.minimum(drawn + splits.drawn, splits.length))
    start = (number - row * splits.columns) * splits.length
    return start + first, start + stop


@mimw.jit
def splits_of(splits):
    """The number of splits: one for each program, and those that are drawn."""
    return (splits.per + quotient(splits.length - splits.fixed + splits.drawn - 1, splits.drawn)) * splits.columns


@mimw.jit
def owner(unit, splits):
    """The split that has a unit."""
    column = quotient(unit, splits.length)
    inside = unit - column * splits.length
    later = tl.where(inside < splits.fixed, 0, inside - splits.fixed)
    row = tl.where(inside < splits.fixed, quotient(inside, splits.each), splits.per + quotient(later, splits.drawn))
    return row * splits.columns + column


@mimw.jit
def ends_of(unit, problem, form):
    """Ends of sequences; with ONCE there are BATCH of them at most."""
    if form.ONCE:
        length, units = some_units(problem, 0, unit, form)
        ends = tl.cumsum(units, 0)
        return Ends(tl.max(ends, 0), tl.max(units, 0), length, ends)
    else:
        total, most = 0, 1
        for first in range(0, problem.batches, form.BATCH):
            _, units = some_units(problem, first, unit, form)
            total += tl.sum(units, 0)
            most = tl.maximum(most, tl.max(units, 0))
        return Ends(total, most, 0, 0)


@mimw.jit
def lengths_differ(seen, problem, form):
    """True if a sequence is no longer as long as it was seen to be."""
    length, _ = some_units(problem, 0, 1, form)
    return tl.max((length != seen.lengths).to(tl.int32), 0) > 0


@mimw.jit
def sequence_at(inside, seen, unit, problem, form):
    """(the sequence that a head's unit number `inside` is of, where it starts)."""
    if form.ONCE:
        over = seen.ends <= inside
        return tl.sum(over.to(tl.int32), 0), tl.max(tl.where(over, seen.ends, 0), 0)
    else:
        place, before = Place(inside * 0, inside * 0), 0
        for first in range(0, problem.batches, form.BATCH):
            _, units = some_units(problem, first, unit, form)
            place = moved(place, inside, before + tl.cumsum(units, 0), units)
            before += tl.sum(units, 0)
        return place.batch, place.start


@mimw.jit
def keys_of(batch, seen, problem, form):
    """The number of keys of a sequence."""
    if form.ONCE:
        return tl.max(tl.where(tl.arange(0, form.BATCH) == batch, seen.lengths, 0), 0)
    else:
        return length_of(problem, tl.minimum(batch, problem.batches - 1))
