"""Shares of dQ through one place in shared memory, for which two consumers' columns leave room: they use it in turn.

Input: a consumer's half of a block's dQ in registers. Output: the half added to the fp32 sums. For example:

    hand_over(shares, block, dq, me)        a consumer: behind the other one's share of the block before, or of this one
    store(shares, sums_desc, problem, form) the role that adds shares to memory by TMA

Taking turns costs nothing: the consumers are half a block apart anyway, so that one's exponentials run beside the other's products.
"""

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..attention_backward.order import program_of
from ..attention_backward.sums import BLOCK_COLUMNS, share_of
from .halves import CONSUMERS, HALF, blocks_of


@mimw.jit
def put(shares, block, dq, me: tl.constexpr):
    """The share of dQ of block number `block`, of consumer `me`, which is the first or the second of it, in its place."""
    if shares.tile[0].shape[0] != 64:
        tlx.barrier_wait(shares.read[1 - me], (block + me + 1) & 1)
    for part in tl.static_range(3):
        if shares.tile[0].shape[0] == 64:
            tlx.barrier_wait(shares.read[(1 - me) * 3 + part], (block + me + 1) & 1)
            tlx.local_store(shares.tile[part], share_of(tle.extract_tile(dq, [0, part], [64, BLOCK_COLUMNS])))
        else:
            into = tlx.local_slice(shares.tile[0], [64 * part, 0], [64, BLOCK_COLUMNS])
            tlx.local_store(into, share_of(tle.extract_tile(dq, [0, part], [64, BLOCK_COLUMNS])))


@mimw.jit
def give(shares, me: tl.constexpr):
    """Announce the share that consumer `me` has put."""
    tlx.fence("async_shared")
    tlx.barrier_arrive(shares.full[me])


@mimw.jit
def store(shares, sums_desc, problem, form):
    """The role: both consumers' shares of each block's dQ, added to the sums. TMA adds."""
    number, head, batch = program_of(form.BANDS)
    first, blocks, _, _ = blocks_of(number * form.BN, problem, form)
    of_all = tl.cdiv(problem.seq_q, form.BM)
    of_head = (batch * problem.heads + head * form.GROUP) * of_all
    ROWS: tl.constexpr = form.BM * HALF // BLOCK_COLUMNS
    PARTS: tl.constexpr = 3 if shares.tile[0].shape[0] == 64 else 1
    for block in range(blocks * form.GROUP):
        row = (of_head + block // blocks * of_all + first + block % blocks) * (CONSUMERS * ROWS)
        for c in tl.static_range(CONSUMERS):
            tlx.barrier_wait(shares.full[c], block & 1)
            for part in tl.static_range(PARTS):
                tlx.async_descriptor_store(sums_desc, shares.tile[part], [row + c * ROWS + part * 64, 0], store_reduce="add")
            for part in tl.static_range(PARTS):
                tlx.async_descriptor_store_wait(PARTS - 1 - part)
                tlx.barrier_arrive(shares.read[c * PARTS + part])
