"""Which program of finished.py reads which keys: shares of one size, heads side by side, cut where sequences end.

Input: the sequences' lengths, the sizes `shape`, and how keys are cut, as in schedule.py. Output: numbers of shares and units.
For example, one sequence of 128 units, 8 heads of keys, 132 programs: 16 for each head, `per`, who are number c, c + 8, c + 16, ..

    sizes = cut(128, 128, 1, 16, 1, 0)          (128, 8, 1): shares of 8 units
    share(11, sizes, 128, 16, 8)                (392, 400): of 1024 units number 3 * 128 + 8, the second share of head 3

Units are counted head by head, in a head sequence by sequence, in a sequence from its first block on. The units of a head are a
column, which has programs of its own: so those of all heads read the same keys at the same time, whatever the lengths are, and
what lies side by side in memory is read at once. Heads that no number of programs suits are one column together.

A share is units one after the other, so at most two of its tiles are others' as well. With DRAWN the last eighths of the units are
for who comes first, in PIECES shares for each program, of SMALLEST units or more: each wants queries, and writes sums.
"""

import triton.language as tl

import mimw

from .even import fitted, quotient, some_units
from .schedule import MUCH, length_of

PIECES, SMALLEST = tl.constexpr(4), tl.constexpr(4)


@mimw.jit
def cut(length, most, tiles, per, LEAST: tl.constexpr, DRAWN: tl.constexpr):
    """(units of a column that its programs have from the start, units of such a share, units of one that is drawn), of a column of
    `length` units and `tiles` tiles, each of `most` units at most, and `per` programs."""
    if DRAWN == 0:
        each = tl.maximum(quotient(length + per - 1, per), LEAST)
        return length, fitted(each, length, most, tiles), length * 0 + 1
    else:
        drawn = tl.where(length >= MUCH * per, length // 8 * DRAWN, 0)
        each = tl.maximum(quotient(length - drawn + per - 1, per), LEAST)
        fixed = tl.minimum(each * per, length)
        return fixed, each, tl.maximum(quotient(length - fixed + PIECES * per - 1, PIECES * per), SMALLEST)


@mimw.jit
def share(number, sizes, length, per, columns):
    """(the first unit of a share, the first of the one after)."""
    fixed, each, size = sizes
    row = quotient(number, columns)
    own = tl.minimum(row * each, fixed)
    drawn = tl.minimum(fixed + (row - per) * size, length)
    first = tl.where(row < per, own, drawn)
    stop = tl.where(row < per, tl.minimum(own + each, fixed), tl.minimum(drawn + size, length))
    start = (number - row * columns) * length
    return start + first, start + stop


@mimw.jit
def shares_of(sizes, length, per, columns):
    """How many shares there are: one for each program, and those that are drawn."""
    fixed, _, size = sizes
    return (per + quotient(length - fixed + size - 1, size)) * columns


@mimw.jit
def owner(unit, sizes, length, per, columns):
    """The share that has a unit."""
    fixed, each, size = sizes
    column = quotient(unit, length)
    inside = unit - column * length
    later = tl.where(inside < fixed, 0, inside - fixed)
    row = tl.where(inside < fixed, quotient(inside, each), per + quotient(later, size))
    return row * columns + column


@mimw.jit
def look(lengths, unit, shape, BN: tl.constexpr, BATCH: tl.constexpr, ONCE: tl.constexpr):
    """(units of a head, of its longest sequence, lengths, where sequences end); the last two are only there with ONCE, where there
    are BATCH sequences at most."""
    if ONCE:
        length, units = some_units(lengths, 0, unit, shape, BN, BATCH)
        ends = tl.cumsum(units, 0)
        return tl.max(ends, 0), tl.max(units, 0), length, ends
    else:
        total, most = 0, 1
        for first in range(0, shape[0], BATCH):
            _, units = some_units(lengths, first, unit, shape, BN, BATCH)
            total += tl.sum(units, 0)
            most = tl.maximum(most, tl.max(units, 0))
        return total, most, 0, 0


@mimw.jit
def sequence_at(inside, seen, lengths, unit, shape, BN: tl.constexpr, BATCH: tl.constexpr, ONCE: tl.constexpr):
    """(the sequence that a head's unit number `inside` is of, where it starts)."""
    _, _, _, ends = seen
    if ONCE:
        over = ends <= inside
        return tl.sum(over.to(tl.int32), 0), tl.max(tl.where(over, ends, 0), 0)
    else:
        batch, start, before = 0, 0, 0
        for first in range(0, shape[0], BATCH):
            _, units = some_units(lengths, first, unit, shape, BN, BATCH)
            ends = before + tl.cumsum(units, 0)
            over = (ends <= inside) & (units > 0)
            batch += tl.sum(over.to(tl.int32), 0)
            start = tl.maximum(start, tl.max(tl.where(over, ends, 0), 0))
            before += tl.sum(units, 0)
        return batch, start


@mimw.jit
def keys_of(batch, seen, lengths, shape, BATCH: tl.constexpr, ONCE: tl.constexpr):
    """How many keys a sequence has."""
    if ONCE:
        return tl.max(tl.where(tl.arange(0, BATCH) == batch, seen[2], 0), 0)
    else:
        return length_of(lengths, tl.minimum(batch, shape[0] - 1), shape)
