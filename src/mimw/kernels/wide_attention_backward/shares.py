"""Shares of dQ through one place in shared memory, for which two consumers' sums leave room: they use it in turn.

Input: a consumer's half of a block's dQ in registers. Output: the half added to the fp32 sums. For example:

    hand_over(shares, block, dq, me)        a consumer: where the other one's share of the block before, or of this one, has left
    store(shares, sums_desc, problem, form) the role that adds shares to memory by TMA

Turns keep the consumers half a block apart, so that one's exponentials run beside the other's products. A place of 24 K leaves in
three parts, and who comes next follows part by part: TMA takes a quarter of a block's time for a share, and there are two.
"""

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..attention_backward.order import program_of
from ..attention_backward.sums import BLOCK_COLUMNS, share_of
from .halves import CONSUMERS, PARTS, blocks_of


@mimw.jit
def hand_over(shares, block, dq, me: tl.constexpr):
    """The share of dQ of block number `block`, of consumer `me`, which is the first or the second of it."""
    for part in tl.static_range(PARTS):
        tlx.barrier_wait(shares.read[(1 - me) * PARTS + part], (block + me + 1) & 1)
        tlx.local_store(shares.parts[part], share_of(tle.extract_tile(dq, [0, part], [64, BLOCK_COLUMNS])))
    tlx.fence("async_shared")
    tlx.barrier_arrive(shares.full[me])


@mimw.jit
def store(shares, sums_desc, problem, form):
    """The role: both consumers' shares of each block's dQ, added to the sums. TMA adds."""
    number, head, batch = program_of(form.BANDS)
    first, blocks, _, _ = blocks_of(number * form.BN, problem, form)
    of_all = tl.cdiv(problem.seq_q, form.BM)
    of_head = (batch * problem.heads + head * form.GROUP) * of_all
    for block in range(blocks * form.GROUP):
        number = (of_head + block // blocks * of_all + first + block % blocks) * CONSUMERS * PARTS
        for c in tl.static_range(CONSUMERS):
            tlx.barrier_wait(shares.full[c], block & 1)
            for part in tl.static_range(PARTS):
                tlx.async_descriptor_store(sums_desc, shares.parts[part], [(number + c * PARTS + part) * form.BM, 0],
                                           store_reduce="add")
            for part in tl.static_range(PARTS):
                tlx.async_descriptor_store_wait(PARTS - 1 - part)
                tlx.barrier_arrive(shares.read[c * PARTS + part])
