"""The role of a consumer: 64 keys, for which dK and dV add up in registers while blocks of queries go by.

Input: the pipes of kernel.py. Output: shares of dQ in the pipe `shares`, dK and dV in memory. For example:

    p, dk, dv = state                           probabilities of the block that comes, and the sums over the blocks before
    state = step(..., block, state, ...)        dP, dS, dQ, dK and dV of block number `block`, beside P of the one behind it
    finish(...)                                 the last block, after which none comes

Scores lie transposed, keys by queries. So P^T and dS^T are where the product for dV and the one for dK want their left operand: in
registers. dS^T goes to shared memory as well, since all consumers' keys make dQ. With P^T = exp2(scale log2(e) K Q^T - lse):

    dP^T = V dO^T     dS^T = P^T (dP^T - delta)     dV += P^T dO     dK += dS^T Q     dQ = dS K
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx

from .schedule import block_at, span
from .sums import add, share_of

STORED = tl.constexpr(8)  # named barrier of all consumers: their dS^T is in shared memory


@mimw.jit
def probabilities(scores, lse, log2_scale, query, key, shape, CAUSAL: tl.constexpr, RAGGED: tl.constexpr):
    """P^T of the keys from `key` and the queries from `query` on, 0 where a query may not look or a key is beyond the end."""
    p = tl.exp2(scores * log2_scale - lse[None, :])
    keys = key + tl.arange(0, scores.shape[0])[:, None]
    if RAGGED:
        p = tl.where(keys < shape[2], p, 0.0)
    if CAUSAL:
        queries = query + tl.arange(0, scores.shape[1])[None, :]
        p = tl.where(keys <= queries + (shape[2] - shape[1]), p, 0.0)
    return p


@mimw.jit
def begin(keys, queries, log2_scale, query, key, shape, me: tl.constexpr, CAUSAL: tl.constexpr,
          RAGGED: tl.constexpr):
    """P^T of the first block, with nothing beside it."""
    k = tlx.local_slice(keys[0], [me * 64, 0], [64, keys.shape[1]])
    slot = queries.wait(0).slot
    scores = tlx.async_dot(k, tlx.local_trans(slot.rows))
    lse = tlx.local_load(slot.numbers)
    scores = tlx.async_dot_wait(0, scores)
    return probabilities(scores, lse, log2_scale, query, key, shape, CAUSAL, RAGGED).to(keys.dtype)


@mimw.jit
def step(tiles, pipes, block, state, place, query, key, log2_scale, shape, me: tl.constexpr, LAST: tl.constexpr,
         CAUSAL: tl.constexpr, RAGGED: tl.constexpr, DQ: tl.constexpr):
    """The gradients of block number `block`, which is number `place` of all heads' blocks, beside the probabilities of the next,
    whose first query is `query`."""
    keys, values, ds_tiles = tiles
    queries, slopes, shares = pipes
    p, dk, dv = state
    DTYPE: tl.constexpr = keys.dtype
    BM: tl.constexpr = p.shape[1]
    D: tl.constexpr = dk.shape[1]
    CONSUMERS: tl.constexpr = keys.shape[0] // 64
    # Always 0, but a compiler that does not know makes the addresses of K and V anew for each block. One that knows keeps them,
    # twenty-four descriptors of 64 bits, in registers over the whole loop, and there is no room for them.
    zero = block & shape[3]
    k, v = tlx.local_slice(keys[zero], [me * 64, 0], [64, D]), tlx.local_slice(values[zero], [me * 64, 0], [64, D])
    k_part = keys[zero] if BM == 64 * CONSUMERS else tlx.local_slice(keys[zero], [0, me * (D // CONSUMERS)],
                                                                     [64 * CONSUMERS, D // CONSUMERS])
    slope = slopes.wait(block).slot
    dp = tlx.async_dot(v, tlx.local_trans(slope.rows))
    dv = tlx.async_dot(p, slope.rows, dv)
    dp = tlx.async_dot_wait(1, dp)
    delta = tlx.local_load(slope.numbers)
    ds = (p.to(tl.float32) * (dp - delta[None, :])).to(DTYPE)
    if DQ != "not":
        # The other place of dS^T was read by products that each consumer has waited for before it came to this barrier.
        tile = ds_tiles[block % 2]
        tlx.local_store(tlx.local_slice(tile, [me * 64, 0], [64, BM]), ds)
        tlx.fence("async_shared")
    # Behind the store, since in front of it the assembler would start the product before the registers of dP^T are free.
    if not LAST:
        next_queries = queries.wait(block + 1).slot
        scores = tlx.async_dot(k, tlx.local_trans(next_queries.rows))
    if DQ != "not":
        tlx.named_barrier_wait(STORED, CONSUMERS * 128)
    dv = tlx.async_dot_wait(0 if LAST else 1, dv)  # so that the registers of P^T are free
    slopes.release(block)
    if DQ != "not":
        rows = tlx.local_slice(tile, [0, me * 64], [64 * CONSUMERS, 64]) if BM == 64 * CONSUMERS else tile
        dq = tlx.async_dot(tlx.local_trans(rows), k_part)
    dk = tlx.async_dot(ds, queries.held(block).rows, dk)
    if not LAST:
        scores = tlx.async_dot_wait(1 if DQ == "not" else 2, scores)
        lse = tlx.local_load(next_queries.numbers)
        p = probabilities(scores, lse, log2_scale, query, key, shape, CAUSAL, RAGGED).to(DTYPE)
        # What is awaited here is needed next anyway. The assembler moves no wait over a loop, and so leaves the wait for dQ behind
        # the exponentials, which run beside the products.
        slopes.wait(block + 1)
    if DQ != "not":
        dq = tlx.async_dot_wait(1, dq)
    if DQ == "direct":
        add(shares, place, dq, me, CONSUMERS)
    if DQ == "tma":
        share = shares.acquire(block)
        tlx.local_store(share.tile, share_of(dq))
        shares.commit(block)
    dk = tlx.async_dot_wait(0, dk)
    queries.release(block)
    return p, dk, dv


@mimw.jit
def compute(keys, values, ds_tiles, pipes, dk_desc, dv_desc, scale, log2_scale, shape, me: tl.constexpr,
            BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, GROUP: tl.constexpr, CAUSAL: tl.constexpr, RAGGED: tl.constexpr,
            DQ: tl.constexpr, TURNED: tl.constexpr):
    """The 64 keys of consumer `me`."""
    CONSUMERS: tl.constexpr = BN // 64
    key, head, batch = tl.program_id(0) * BN, tl.program_id(1), tl.program_id(2)
    first, blocks, masked, turn = span(key, shape, BM, BN, CAUSAL, TURNED)
    key += me * 64
    tlx.barrier_wait(keys[1][0], 0)
    p = begin(keys[0], pipes[0], log2_scale, block_at(0, first, blocks, turn) * BM, key, shape, me, CAUSAL, RAGGED)
    tlx.barrier_wait(values[1][0], 0)
    tiles = keys[0], values[0], ds_tiles
    state = p, tl.zeros((64, D), tl.float32), tl.zeros((64, D), tl.float32)
    of_head = tl.cdiv(shape[1], BM)
    place = (batch * shape[0] + head * GROUP) * of_head
    block, last = 0, place + block_at(0, first, blocks, turn)
    for g in range(GROUP + shape[3]):  # not known to be one round, the loops inside stay loops, and need fewer registers
        begun = tl.where(g == 0, 1, 0)  # of the first head, whose first probabilities are there already
        if CAUSAL:
            for i in range(begun, masked):
                next_block = block_at(i, first, blocks, turn)
                state = step(tiles, pipes, block, state, last, next_block * BM, key, log2_scale, shape, me, False, True, RAGGED, DQ)
                block, last = block + 1, place + g * of_head + next_block
        for i in range(tl.maximum(begun, masked), blocks):
            next_block = block_at(i, first, blocks, turn)
            state = step(tiles, pipes, block, state, last, next_block * BM, key, log2_scale, shape, me, False, False, RAGGED, DQ)
            block, last = block + 1, place + g * of_head + next_block
    _, dk, dv = step(tiles, pipes, block, state, last, 0, key, log2_scale, shape, me, True, False, False, DQ)
    # dV over V, of which nobody else reads these rows; dK over K when all consumers have made their last share of dQ of it.
    k, v = tlx.local_slice(keys[0][0], [me * 64, 0], [64, D]), tlx.local_slice(values[0][0], [me * 64, 0], [64, D])
    tlx.local_store(v, dv.to(v.dtype))
    if DQ != "not":
        tlx.named_barrier_wait(STORED, CONSUMERS * 128)
    tlx.local_store(k, (dk * scale).to(k.dtype))
    tlx.fence("async_shared")
    tlx.async_descriptor_store(dv_desc, v, [batch, head, key, 0])
    tlx.async_descriptor_store(dk_desc, k, [batch, head, key, 0])
    tlx.async_descriptor_store_wait(0)
