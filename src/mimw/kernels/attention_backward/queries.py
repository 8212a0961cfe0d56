"""dQ in one order of sums: a program owns a block of queries and walks over the keys that they look at.

Input: descriptors of Q, K, V, dO and dQ, the numbers of each query (rows.py), and the sizes. Output: dQ is written. For example:

    kernel, grid, args, meta = launches(q, ..., one_order=True)[2]
    query_gradients[grid](*args, **meta)

Whoever shares sums with other programs adds in the order in which they come. Here nothing is shared, at the price of two products
that the kernel for dK and dV computes as well: seven in all instead of five. Roles: `load`, two times `compute`. With
P = exp2(scale log2(e) Q K^T - lse):

    dP = dO V^T     dS = P (dP - delta)     dQ += dS K

P of a block of keys is made beside the product for dQ of the block before.
"""

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..consumers import consumer, consumers
from .kernel import load_once


@mimw.jit
def keys_of(query, shape, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr):
    """(blocks of keys that the BM queries from `query` on look at, how many of them need no mask)."""
    _, seq_q, seq_k, _ = shape
    ends = tl.minimum(query + BM + seq_k - seq_q, seq_k) if CAUSAL else seq_k
    plain = tl.minimum((query + seq_k - seq_q + 1) // BN, seq_k // BN) if CAUSAL else seq_k // BN
    return tl.cdiv(ends, BN), plain


@mimw.jit
def load_block(desc, pipe, block, batch, head, BN: tl.constexpr):
    slot = pipe.acquire(block)
    tle.gpu.copy(desc, tlx.local_reshape(slot.rows, desc.block_shape), desc.block_shape, [batch, head, block * BN, 0])
    pipe.commit(block)


@mimw.jit
def load(queries, slopes, keys, values, q_desc, k_desc, v_desc, do_desc, query, shape, BM: tl.constexpr, BN: tl.constexpr,
         GROUP: tl.constexpr, CAUSAL: tl.constexpr):
    """Queries and dO once, then keys and values, keys a block ahead."""
    head, batch = tl.program_id(1), tl.program_id(2)
    blocks, _ = keys_of(query, shape, BM, BN, CAUSAL)
    load_once(q_desc, queries[0], queries[1], batch, head, query)
    load_block(k_desc, keys, 0, batch, head // GROUP, BN)
    load_once(do_desc, slopes[0], slopes[1], batch, head, query)
    for block in range(1, blocks):
        load_block(v_desc, values, block - 1, batch, head // GROUP, BN)
        load_block(k_desc, keys, block, batch, head // GROUP, BN)
    load_block(v_desc, values, blocks - 1, batch, head // GROUP, BN)


@mimw.jit
def probabilities(scores, lse, log2_scale, query, key, shape, MASKED: tl.constexpr, CAUSAL: tl.constexpr):
    """P of the queries from `query` and the keys from `key` on, 0 where a query may not look or a key is beyond the end."""
    p = tl.exp2(scores * log2_scale - lse[:, None])
    if MASKED:
        keys = key + tl.arange(0, scores.shape[1])[None, :]
        last = query + tl.arange(0, scores.shape[0])[:, None] + (shape[2] - shape[1]) if CAUSAL else shape[2] - 1
        p = tl.where(keys <= (tl.minimum(last, shape[2] - 1) if CAUSAL else last), p, 0.0)
    return p


@mimw.jit
def step(tiles, block, state, numbers, log2_scale, query, shape, me: tl.constexpr, BN: tl.constexpr, LAST: tl.constexpr,
         MASKED: tl.constexpr, CAUSAL: tl.constexpr):
    """dQ += dS K of block number `block` of keys beside the probabilities of the next."""
    queries, slopes, keys, values = tiles
    p, dq = state
    lse, delta = numbers
    zero = block & shape[3]  # keeps the addresses of Q and dO from being held in registers, as in compute.py
    q = tlx.local_slice(queries[zero], [me * 64, 0], [64, dq.shape[1]])
    do = tlx.local_slice(slopes[zero], [me * 64, 0], [64, dq.shape[1]])
    dp = tlx.async_dot(do, tlx.local_trans(values.wait(block).slot.rows))
    dp = tlx.async_dot_wait(0, dp)
    values.release(block)
    ds = (p * (dp - delta[:, None])).to(q.dtype)
    if not LAST:
        scores = tlx.async_dot(q, tlx.local_trans(keys.wait(block + 1).slot.rows))
    dq = tlx.async_dot(ds, keys.held(block).rows, dq)
    if not LAST:
        scores = tlx.async_dot_wait(1, scores)
        p = probabilities(scores, lse, log2_scale, query, (block + 1) * BN, shape, MASKED, CAUSAL)
        values.wait(block + 1)  # needed next anyway: it keeps the wait for dQ behind the exponentials
    dq = tlx.async_dot_wait(0, dq)
    keys.release(block)
    return p, dq


@mimw.jit
def compute(queries, slopes, keys, values, rows, dq_desc, scale, log2_scale, query, padded, shape, me: tl.constexpr,
            BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr):
    """The 64 queries of consumer `me`."""
    head, batch = tl.program_id(1), tl.program_id(2)
    blocks, plain = keys_of(query, shape, BM, BN, CAUSAL)
    query += me * 64
    q = tlx.local_slice(queries[0][0], [me * 64, 0], [64, D])
    mine = query + tl.arange(0, 64)
    heads = shape[0]
    at = (batch * heads + head).to(tl.int64) * padded + mine
    lse = tl.load(rows + at, mask=mine < padded, other=float("inf"))
    delta = tl.load(rows + tl.num_programs(2).to(tl.int64) * heads * padded + at, mask=mine < padded, other=0.0)
    tlx.barrier_wait(queries[1][0], 0)
    scores = tlx.async_dot(q, tlx.local_trans(keys.wait(0).slot.rows))
    scores = tlx.async_dot_wait(0, scores)
    p = probabilities(scores, lse, log2_scale, query, 0, shape, True, CAUSAL)
    tlx.barrier_wait(slopes[1][0], 0)
    numbers = lse, delta
    state = p, tl.zeros((64, D), tl.float32)
    first_masked = tl.maximum(tl.minimum(plain, blocks), 1)
    tiles = queries[0], slopes[0], keys, values
    for block in range(0, first_masked - 1):
        state = step(tiles, block, state, numbers, log2_scale, query, shape, me, BN, False, False, CAUSAL)
    for block in range(first_masked - 1, blocks - 1):
        state = step(tiles, block, state, numbers, log2_scale, query, shape, me, BN, False, True, CAUSAL)
    _, dq = step(tiles, blocks - 1, state, numbers, log2_scale, query, shape, me, BN, True, False, CAUSAL)
    tlx.local_store(q, (dq * scale).to(q.dtype))  # over Q, of which nobody else reads these rows
    tlx.fence("async_shared")
    tlx.async_descriptor_store(dq_desc, q, [batch, head, query, 0])
    tlx.async_descriptor_store_wait(0)


@mimw.jit
def query_gradients(q_desc, k_desc, v_desc, do_desc, dq_desc, rows, scale, log2_scale, heads, seq_q, seq_k, padded, zero,
                    BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, GROUP: tl.constexpr, K_STAGES: tl.constexpr,
                    V_STAGES: tl.constexpr, CAUSAL: tl.constexpr):
    """dQ (batches, heads, seq_q, D).

    args:      rows    lse and delta as `before` makes them, (2, batches heads, padded)
               scale   of the scores; log2_scale is that times log2(e)
               zero    0, which the compiler must not know
               GROUP   query heads to a head of K and V
    """
    CONSUMERS: tl.constexpr = BM // 64
    DTYPE: tl.constexpr = tlx.dtype_of(q_desc)
    shape = heads, seq_q, seq_k, zero
    queries = tlx.local_alloc((BM, D), DTYPE, 1), tlx.alloc_barriers(1)
    slopes = tlx.local_alloc((BM, D), DTYPE, 1), tlx.alloc_barriers(1)
    keys = tle.pipe(capacity=K_STAGES, readers=consumers(CONSUMERS), name="keys", rows=tle.gpu.alloc([K_STAGES, BN, D], DTYPE))
    values = tle.pipe(capacity=V_STAGES, readers=consumers(CONSUMERS), name="values", rows=tle.gpu.alloc([V_STAGES, BN, D], DTYPE))
    query = (tl.num_programs(0) - 1 - tl.program_id(0)) * BM  # under a causal mask the long ones first
    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=240, replicate=CONSUMERS):  # consumer
            me: tl.constexpr = tlx.async_task_replica_id()
            name: tl.constexpr = consumer(me)
            compute(queries, slopes, keys.reader(name), values.reader(name), rows, dq_desc, scale, log2_scale, query, padded, shape,
                    me, BM, BN, D, CAUSAL)
        with tlx.async_task(num_warps=1, num_regs=24):  # producer
            load(queries, slopes, keys.writer(), values.writer(), q_desc, k_desc, v_desc, do_desc, query, shape, BM, BN, GROUP,
                 CAUSAL)
