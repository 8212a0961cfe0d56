"""The fp32 sums of dQ, and in which order their elements lie.

Input: a consumer's share of a block's dQ, as the tensor cores leave it in registers. Output: the share as rows of 32 numbers, added
to memory. For example:

    share_of(dq)            (64, columns) -> (2 columns, 32): what a thread holds lies together, 16 bytes at a time
    tile_of(share)          the same, backwards
    store(shares, ...)      the role that adds shares to memory by TMA

A thread of a tensor-core tile holds two neighbours of one row and two of the row eight below. Stored as rows these are 8 bytes
each, and lanes of different rows meet in the banks of shared memory. Since only kernels of ours read the sums, they lie in the
order of the threads: 16 bytes a lane, 512 a warp, without conflicts. One share follows the other: that of the block's first
consumer, that of the second, then the next block's.
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx

from .order import program_of
from .schedule import span

BLOCK_COLUMNS = tl.constexpr(32)  # fp32 in a row of 128 bytes, as wide as TMA swizzles


@mimw.jit
def share_of(dq):
    """Element (16 w + 8 h + r, 8 j + 2 t + e) goes to place (j, w, r, t, h, e) of a row-major list."""
    COLUMNS: tl.constexpr = dq.shape[1]
    parts = tl.permute(tl.reshape(dq, (4, 2, 8, COLUMNS // 8, 4, 2)), 3, 0, 2, 4, 1, 5)
    return tl.reshape(parts, (64 * COLUMNS // BLOCK_COLUMNS, BLOCK_COLUMNS))


@mimw.jit
def tile_of(share, COLUMNS: tl.constexpr):
    """The (64, COLUMNS) tile of which `share` is the share."""
    parts = tl.permute(tl.reshape(share, (COLUMNS // 8, 4, 8, 4, 2, 2)), 1, 4, 2, 0, 3, 5)
    return tl.reshape(parts, (64, COLUMNS))


@mimw.jit
def add(shares, sums_desc, of_head, heads_apart, first, blocks, form):
    """Add every consumer's share of each block's dQ to the sums: of `blocks` blocks from `first` on, for GROUP heads. The first
    head's blocks begin at number `of_head`, the next one's `heads_apart` behind. TMA adds."""
    CONSUMERS: tl.constexpr = form.BN // 64
    ROWS: tl.constexpr = form.BM * form.D // BLOCK_COLUMNS  # of the sums, for a block of queries
    for block in range(blocks * form.GROUP):
        row = (of_head + block // blocks * heads_apart + first + block % blocks) * ROWS
        for c in tl.static_range(CONSUMERS):
            share = shares[c].reader()
            tlx.async_descriptor_store(sums_desc, share.wait(block).slot.tile, [row + c * (ROWS // CONSUMERS), 0],
                                       store_reduce="add")
            tlx.async_descriptor_store_wait(0)
            share.release(block)


@mimw.jit
def store(shares, sums_desc, problem, form):
    """The role that adds the shares of a program of kernel.py."""
    block, head, batch = program_of(form.BANDS)
    key = block * form.BN
    first, blocks, _, _ = span(key, problem, form.BM, form.BN, form.CAUSAL)
    of_head = (batch * problem.heads + head * form.GROUP) * tl.cdiv(problem.seq_q, form.BM)
    add(shares, sums_desc, of_head, tl.cdiv(problem.seq_q, form.BM), first, blocks, form)
