"""The reduction of splits: partial softmaxes of the same rows become one.

Input: highest scores, in base 2, sums of probabilities and of p V of some splits. Output: the `Sums` of all. For example:

    sums = nothing(ROWS, D)
    sums = merged(sums, highest, total, acc)        of the splits along the first dimension

Splits are merged in the order of keys, so results are the same from run to run.
"""

import triton.language as tl

import mimw

from .nouns import Sums


@mimw.jit
def nothing(ROWS: tl.constexpr, D: tl.constexpr):
    """Sums of no keys."""
    highest, total = tl.full((ROWS, ), float("-inf"), tl.float32), tl.zeros((ROWS, ), tl.float32)
    return Sums(highest, total, tl.zeros((ROWS, D), tl.float32))


@mimw.jit
def merged(sums, highest, total, acc):
    """The sums with those of some splits, which lie along the first dimension."""
    top = tl.maximum(sums.highest, tl.max(highest, 0))
    base = tl.where(top == float("-inf"), 0.0, top)
    shrink, factor = tl.exp2(sums.highest - base), tl.exp2(highest - base[None, :])
    return Sums(top, sums.total * shrink + tl.sum(total * factor, 0),
                sums.acc * shrink[:, None] + tl.sum(acc * factor[:, :, None], 0))


@mimw.jit
def store_partial(stats, accs, place, column, counts, sums):
    """The sums of a split's part of a tile: those of the rows that count, which are rows number `place` of all parts."""
    tl.store(accs + place[:, None] * sums.acc.shape[1] + column[None, :], sums.acc, mask=counts[:, None])
    tl.store(stats + place * 2, sums.highest, mask=counts)
    tl.store(stats + place * 2 + 1, sums.total, mask=counts)


@mimw.jit
def arrived(flags, ending):
    """The number of splits that have come before this one, of those that have keys of the ending's tile."""
    return tl.atomic_add(flags + 1 + ending.first, 1, sem="acq_rel", scope="gpu")


@mimw.jit
def clear(flags, ending):
    """Put the flag of the ending's tile back to 0, for the next launch."""
    tl.atomic_xchg(flags + 1 + ending.first, 0, sem="relaxed", scope="gpu")
