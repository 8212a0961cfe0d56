"""Which keys a program of ring attention's gradients owns, and which of the rank's queries look at them.

Input: a program's number along the first axis of the grid, and `shape` = (query heads, rows, rows, 0, None, None). Output:
the rank whose keys these are, and blocks of queries. For example, rank 1 of two with two chunks of 128 rows each, 1 and 2 of
four, BM = 64, BN = 128:

    keys_of(0, 1, 2, shape, 64, 128, 2, True)   (1, 0, 0, 0, 4, 2): its own first 128 keys; two of four blocks need masks
    keys_of(2, 1, 2, shape, 64, 128, 2, True)   (0, 0, -128, 0, 4, 0): rank 0's chunk 0, which all queries see
    keys_of(3, 1, 2, shape, 64, 128, 2, True)   (0, 128, -128, 4, 0, 0): rank 0's chunk 3, which none sees

Own keys come first, then those of the rank behind, and so on: the order in which they arrive. Of another rank's keys the
queries that see one are the rank's last ones: all, those of its second chunk, or none. So only own keys need masks, and these
as if the rank's rows were a sequence of their own.
"""

import triton.language as tl

import mimw

from ..attention_backward.schedule import span


@mimw.jit
def sees_from(source, me, row, rows, PARTS: tl.constexpr):
    """The first row of rank `me` that sees row `row` of another rank, `rows` for none, under a causal mask."""
    if PARTS == 1:
        return tl.where(source < me, 0, rows)
    else:
        half = rows // 2
        return tl.where(row < half, tl.where(source < me, 0, half), tl.where(source > me, half, rows))


@mimw.jit
def keys_of(program, me, size, shape, BM: tl.constexpr, BN: tl.constexpr, PARTS: tl.constexpr, CAUSAL: tl.constexpr):
    """(rank, its row at which the BN keys begin, the same for masks, first block of queries, how many, how many of these need
    a mask)."""
    rows = shape[1]
    of_rank, blocks = rows // BN, rows // BM
    step = program // of_rank
    row = program % of_rank * BN
    source = tl.where(step > me, me + size - step, me - step)
    if CAUSAL:
        own = step == 0
        first, count, early, _ = span(row, shape, BM, BN, True)
        begin = sees_from(source, me, row, rows, PARTS) // BM
        first, early = tl.where(own, first, begin), tl.where(own, early, 0)
        return source, row, tl.where(own, row, -BN), first, tl.where(own, count, blocks - begin), early
    else:
        return source, row, row, 0, blocks, 0
