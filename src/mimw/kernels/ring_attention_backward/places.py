"""Which keys a program of ring attention's gradients owns, and which of the rank's queries look at them.

Input: a program's number among those of its head, and the `Problem` of the rank's rows. Output: the rank whose
keys these are, and blocks of queries. For example, rank 1 of two with two chunks of 128 rows each, 1 and 2 of four, BM = 64,
BN = 128:

    keys_of(0, 1, 2, problem, 64, 128, 2, True)   (1, 0, 0, 0, 4, 2): its own first 128 keys; two of four blocks need masks
    keys_of(1, 1, 2, problem, 64, 128, 2, True)   (0, 128, -128, 4, 0, 0): rank 0's chunk 3, which none sees
    keys_of(2, 1, 2, problem, 64, 128, 2, True)   (0, 0, -128, 0, 4, 0): rank 0's chunk 0, which all queries see
    keys_of(3, 1, 2, problem, 64, 128, 2, True)   (1, 128, 128, 2, 2, 2): its own last 128 keys

Of another rank's keys the queries that see one are the rank's last ones: all, those of its second chunk, or none. So only own keys
need masks, and these as if the rank's rows were a sequence of their own.

Own keys come first, while those of others arrive, those of the rank behind before those of the next. Under a causal mask blocks of
keys differ in how many queries see them: of a rank's first chunk most, of the chunks of others as many as of any or half of that,
of the rank's second chunk least. In this order, and of all heads at a time, long programs begin early and short ones fill the GPU
up to the end; head after head, the last one's long programs began when the others were done.
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle


@tle.struct
class Ranks:
    """The number of this rank, how many there are, and the chunks of each."""

    me: Any
    count: Any
    PARTS: tl.constexpr


@mimw.jit
def program_of(CAUSAL: tl.constexpr):
    """(number among the programs of its head, head, batch) of this program. Programs start along the first axis of the grid: under
    a causal mask that is heads."""
    if CAUSAL:
        return tl.program_id(1), tl.program_id(0), tl.program_id(2)
    else:
        return tl.program_id(0), tl.program_id(1), tl.program_id(2)


@mimw.jit
def sees_from(source, me, row, rows, PARTS: tl.constexpr):
    """The first row of rank `me` that sees row `row` of another rank, `rows` for none, under a causal mask."""
    if PARTS == 1:
        return tl.where(source < me, 0, rows)
    else:
        half = rows // 2
        return tl.where(row < half, tl.where(source < me, 0, half), tl.where(source > me, half, rows))


@mimw.jit
def keys_of(program, me, size, problem, BM: tl.constexpr, BN: tl.constexpr, PARTS: tl.constexpr, CAUSAL: tl.constexpr):
    """(rank, its row at which the BN keys begin, the same for masks, first block of queries, how many, how many of these need
    a mask)."""
    rows = problem.seq_q
    of_chunk, blocks = rows // (BN * PARTS), rows // BM
    number = program // of_chunk        # of the chunk in the order of programs
    step, part = (number, 0) if PARTS == 1 else ((number + 1) >> 1, number & 1)
    source = tl.where(step > me, me + size - step, me - step)
    row = (part * of_chunk + program % of_chunk) * BN
    if CAUSAL:
        own = source == me
        first = tl.where(own, row // BM, sees_from(source, me, row, rows, PARTS) // BM)
        early: tl.constexpr = max(BN // BM, 1)
        return source, row, tl.where(own, row, -BN), first, blocks - first, tl.where(own, early, 0)
    else:
        return source, row, row, 0, blocks, 0
