"""Which program has which block of keys: head after head, or in bands of heads with the long programs first.

Input: the number of a program in its grid. Output: a block of keys, its head and its batch. For example, 8 heads with 32 blocks of
keys under a causal mask, where the first block is seen by all queries and the last one by a few:

    grid_of(32, 8, 1, 0)            (32, 8, 1): programs 0 to 31 have the blocks of head 0, the next ones those of head 1
    grid_of(32, 8, 1, 1)            (8, 32, 1): programs 0 to 7 have block 0 of a head each, the next ones block 1
    grid_of(32, 8, 1, 2)            (4, 32, 2): the same of the first four heads, then of the others
    bands_of(32, 8, 1, "auto")      1: of these few heads the second is a third faster

Programs start in the order of their numbers, each where another one has ended. Head after head, the last head's long programs start
when the other heads are done, and most multiprocessors wait for them. By lengths, all end together. A band has half as many heads
again as run at once head after head, so hardly more queries and gradients are in the second-level cache. It is a power of two of
bands that makes up a batch: a program that divides by another number to find its head has no register left for it. Of many heads
the wait for the last one is little, and what programs of one head share in the cache is worth more.
"""

from __future__ import annotations

import triton.language as tl

import mimw

ORDERS = "auto", "heads", "lengths"
RUNNING = 132   # programs at a time, of an H200: one on each multiprocessor
# Of `end_of`; measured: above it by lengths is 5 to 37 % faster, below it up to 2 % slower (benchmarks/notes/attention-backward.md,
# "The order of programs under a causal mask").
FEW = 0.2


def end_of(blocks: int, heads: int) -> float:
    """About how long the last one of `heads` heads takes behind the others, head after head, as a share of all. Its first program
    has `blocks` steps, twice the mean; a head's steps are blocks^2 / 2, on RUNNING multiprocessors."""
    return (2 * RUNNING / blocks - 1) / heads


def bands_of(blocks: int, heads: int, batches: int, order: str) -> int:
    """The number of bands that a batch's `heads` heads of `blocks` blocks make: a power of two, 0 for head after head."""
    if order == "heads" or order == "auto" and end_of(blocks, heads * batches) <= FEW:
        return 0
    bands = 1
    while heads % (2 * bands) == 0 and heads // (2 * bands) * blocks * 2 >= 3 * RUNNING:
        bands *= 2
    return bands


def grid_of(blocks: int, heads: int, batches: int, bands: int) -> tuple[int, int, int]:
    """The grid of a program for each block."""
    return (heads // bands, blocks, bands * batches) if bands else (blocks, heads, batches)


@mimw.jit
def program_of(BANDS: tl.constexpr):
    """(block, head, batch) of this program."""
    if BANDS == 0:
        return tl.program_id(0), tl.program_id(1), tl.program_id(2)
    else:
        band = tl.program_id(2)
        return tl.program_id(1), band % BANDS * tl.num_programs(0) + tl.program_id(0), band // BANDS


@mimw.jit
def sizes_of(BANDS: tl.constexpr):
    """(blocks of a head, heads of all batches) of the grid."""
    if BANDS == 0:
        return tl.num_programs(0), tl.num_programs(1) * tl.num_programs(2)
    else:
        return tl.num_programs(1), tl.num_programs(0) * tl.num_programs(2)
