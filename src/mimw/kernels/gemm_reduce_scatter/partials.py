"""Partial sums on their way to another GPU: straight from registers over NVLink, and back into the registers of who adds them.

Input: a piece of fp32 sums in registers of a warpgroup, and a place in memory for it. Output: the place is written, or read:

    hand_over(sums, there)                              there: BF16 or fp32, of as many elements as sums, at a multiple of 16 bytes
    sums += handed_over(here, sums)                     of the same shape, by as many warps

The order in memory is that of the registers: each lane has 16 bytes in a row, a warp's lanes are neighbours. So a warp stores 512
consecutive bytes by one instruction, nothing goes through shared memory, no tensor map is needed, and sums that stick out of a
matrix are as good as others.
"""

import triton.language as tl

import mimw


@mimw.jit
def as_held(sums, WIDE: tl.constexpr):
    """Sums with an axis for each digit of where an element lies in a warpgroup: blocks of 64 rows, halves of 16 rows, runs of
    columns, 4 warps, 8 rows, 4 lanes, WIDE neighbours in a thread. No element changes its thread."""
    ROWS: tl.constexpr = sums.shape[0] // 64
    BLOCKS: tl.constexpr = WIDE // 2
    RUNS: tl.constexpr = sums.shape[1] // (8 * BLOCKS)
    digits = sums.reshape(ROWS, 4, 2, 8, RUNS, BLOCKS, 4, 2).permute(0, 2, 4, 1, 3, 6, 5, 7)
    return digits.reshape(ROWS, 2, RUNS, 4, 8, 4, WIDE)


@mimw.jit
def as_tile(held, like):
    """The opposite, for sums like these."""
    BLOCKS: tl.constexpr = held.shape[6] // 2
    digits = held.reshape(held.shape[0], 2, held.shape[2], 4, 8, 4, BLOCKS, 2).permute(0, 3, 1, 4, 2, 6, 5, 7)
    return digits.reshape(like.shape[0], like.shape[1])


@mimw.jit
def places(held):
    """Where the elements of `as_held(sums)` lie, written as a sum of digits, from which Triton sees how much of it is
    consecutive."""
    WIDE: tl.constexpr = held.shape[6]
    RUNS: tl.constexpr = held.shape[2]
    at = tl.arange(0, WIDE)[None, None, None, None, None, None, :]
    at += WIDE * tl.arange(0, 4)[None, None, None, None, None, :, None]
    at += 4 * WIDE * tl.arange(0, 8)[None, None, None, None, :, None, None]
    at += 32 * WIDE * tl.arange(0, 4)[None, None, None, :, None, None, None]
    at += 128 * WIDE * tl.arange(0, RUNS)[None, None, :, None, None, None, None]
    at += 128 * WIDE * RUNS * tl.arange(0, 2)[None, :, None, None, None, None, None]
    return at + 256 * WIDE * RUNS * tl.arange(0, held.shape[0])[:, None, None, None, None, None, None]


@mimw.jit
def hand_over(sums, there):
    """Store sums as what `there` points at; tell the reader by a signal behind it."""
    held = as_held(sums.to(there.dtype.element_ty), 128 // there.dtype.element_ty.primitive_bitwidth)
    tl.store(there + places(held), held)


@mimw.jit
def handed_over(here, like):
    """The sums that another GPU has stored, in fp32, to be asked for behind its signal. Past the first cache, which keeps old
    lines."""
    held = as_held(like, 128 // here.dtype.element_ty.primitive_bitwidth)
    return as_tile(tl.load(here + places(held), cache_modifier=".cg").to(tl.float32), like)
