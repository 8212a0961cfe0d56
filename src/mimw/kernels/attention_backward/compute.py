"""The role of a consumer: 64 keys, for which dK and dV add up in registers while blocks of queries go by.

Input: the pipes of kernel.py. Output: shares of dQ in the pipe `shares`, dK and dV in memory. For example:

    p, dk, dv = state                           P^T of the block that comes, and the sums over the blocks before
    state = step(..., block, state, ...)        dV and dK of block number `block`, the share of dQ of the last one, P^T of the next
    finish(...)                                 the last share, dK and dV to memory

Scores lie transposed, keys by queries. So P^T and dS^T are where the product for dV and the one for dK want their left operand: in
registers. dS^T goes to shared memory as well, since all consumers' keys make dQ. With P^T = exp2(scale log2(e) K Q^T - lse):

    dP^T = V dO^T     dS^T = P^T (dP^T - delta)     dV += P^T dO     dK += dS^T Q     dQ = dS K

The share of dQ that a consumer makes beside block number n is that of block n - 1, so no consumer waits for what the others do with
the same block: they may be half a block apart, and one's exponentials run beside the others' products. Beside block 0 it is that of
a dS of zeros, which goes nowhere.
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx

from .order import program_of
from .schedule import span
from .scores import rules_of, weights
from .sums import share_of

FINISHED = tl.constexpr(8)  # named barrier of all consumers: their last shares of dQ are made


@mimw.jit
def place_of(ds, chunk, me: tl.constexpr):
    """The consumer's rows of chunk number `chunk` of dS^T; chunk n + 1 is that of block n."""
    tile = ds.rows[chunk % ds.rows.num]
    return tlx.local_slice(tile, [me * 64, 0], [64, tile.shape[1]])


@mimw.jit
def signal(ds, chunk):
    """Announce to all consumers that this one has put in its part of chunk number `chunk`, behind a fence."""
    tlx.barrier_arrive(ds.full[chunk % ds.full.num])


@mimw.jit
def wait(ds, chunk):
    """Wait until all consumers have put in their parts of chunk number `chunk`. Who has put in chunk n + 1 has read chunk n - 1, so
    this is also the time from which on the slot of chunk n + 2 may be written."""
    tlx.barrier_wait(ds.full[chunk % ds.full.num], (chunk // ds.full.num) & 1)


@mimw.jit
def share(ds, chunk, keys, me: tl.constexpr):
    """The product of a chunk of dS with K: 64 rows of dQ for all columns, or where a block has no more, some of the columns."""
    CONSUMERS: tl.constexpr = keys.shape[0] // 64
    COLUMNS: tl.constexpr = keys.shape[1] // CONSUMERS
    tile = ds.rows[chunk % ds.rows.num]
    if tile.shape[1] == 64 * CONSUMERS:
        return tlx.async_dot(tlx.local_trans(tlx.local_slice(tile, [0, me * 64], [64 * CONSUMERS, 64])), keys)
    else:
        return tlx.async_dot(tlx.local_trans(tile), tlx.local_slice(keys, [0, me * COLUMNS], [64 * CONSUMERS, COLUMNS]))


@mimw.jit
def hand_over(shares, block, dq):
    """A share of dQ of block number `block` to the role that adds it to the sums; whatever was stored before is behind a fence."""
    slot = shares.acquire(block)
    tlx.local_store(slot.tile, share_of(dq))
    shares.commit(block)


@mimw.jit
def probabilities(scores, lse, query, key, rules, problem, TYPE: tl.constexpr, MASKED: tl.constexpr, form):
    """P^T of the keys from `key` and the queries from `query` on; with a soft cap also P^T times its derivative."""
    positions = query + (problem.seq_k - problem.seq_q) + tl.arange(0, scores.shape[1])
    keys = key + tl.arange(0, scores.shape[0])
    p, weight = weights(scores, lse[None, :], keys[:, None], positions[None, :], rules, problem, MASKED, form)
    if rules.inner is None:
        return (p.to(TYPE), )
    else:
        return p.to(TYPE), weight.to(TYPE)


@mimw.jit
def gradients_of_scores(p, dp, slope):
    """dS^T of a block of queries, whose deltas come with their dO."""
    delta = tlx.local_load(slope.numbers)
    return (p[len(p) - 1].to(tl.float32) * (dp - delta[None, :])).to(slope.rows.dtype)


@mimw.jit
def begin(keys, queries, rules, query, key, problem, me: tl.constexpr, MASKED: tl.constexpr, form):
    """P^T of the first block, with nothing beside it."""
    k = tlx.local_slice(keys.rows[0], [me * 64, 0], [64, keys.rows.shape[1]])
    slot = queries.wait(0).slot
    scores = tlx.async_dot(k, tlx.local_trans(slot.rows))
    lse = tlx.local_load(slot.numbers)
    scores = tlx.async_dot_wait(0, scores)
    return probabilities(scores, lse, query, key, rules, problem, keys.rows.dtype, MASKED, form)


@mimw.jit
def step(tiles, pipes, block, state, query, key, rules, problem, me: tl.constexpr, LAST: tl.constexpr, MASKED: tl.constexpr,
         form):
    """The gradients of block number `block` beside the probabilities of the next, whose first query is `query`."""
    keys, values, ds = tiles
    queries, slopes, shares = pipes.queries, pipes.slopes, pipes.shares
    p, dk, dv = state
    DTYPE: tl.constexpr = keys.dtype
    D: tl.constexpr = dk.shape[1]
    SHARED: tl.constexpr = form.DQ == "tma"
    # Always 0, but a compiler that does not know makes the addresses of K and V anew for each block. One that knows keeps them,
    # twenty-four descriptors of 64 bits, in registers over the whole loop, and there is no room for them.
    zero = block & problem.opaque_zero
    k, v = tlx.local_slice(keys[zero], [me * 64, 0], [64, D]), tlx.local_slice(values[zero], [me * 64, 0], [64, D])
    slope = slopes.wait(block).slot
    dp = tlx.async_dot(v, tlx.local_trans(slope.rows))
    dv = tlx.async_dot(p[0], slope.rows, dv)
    dp = tlx.async_dot_wait(1, dp)
    tile = gradients_of_scores(p, dp, slope)
    if SHARED:
        wait(ds, block)
        tlx.local_store(place_of(ds, block + 1, me), tile)
        tlx.fence("async_shared")
        signal(ds, block + 1)
    # Behind the store, since in front of it the assembler would start the product before the registers of dP^T are free.
    if not LAST:
        following = queries.wait(block + 1).slot
        scores = tlx.async_dot(k, tlx.local_trans(following.rows))
    dv = tlx.async_dot_wait(0 if LAST else 1, dv)  # so that the registers of P^T are free
    slopes.release(block)
    if SHARED:
        dq = share(ds, block, keys[zero], me)
    dk = tlx.async_dot(tile, queries.held(block).rows, dk)
    if not LAST:
        scores = tlx.async_dot_wait(2 if SHARED else 1, scores)
        lse = tlx.local_load(following.numbers)
        p = probabilities(scores, lse, query, key, rules, problem, DTYPE, MASKED, form)
        # What is awaited here is needed next anyway. The assembler moves no wait over a loop, and so leaves the wait for dQ behind
        # the exponentials, which run beside the products.
        slopes.wait(block + 1)
    if SHARED:
        dq = tlx.async_dot_wait(1, dq)
        if block > 0:
            hand_over(shares, block - 1, dq)
    dk = tlx.async_dot_wait(0, dk)
    queries.release(block)
    return p, dk, dv


@mimw.jit
def finish(tiles, shares, block, state, scale, me: tl.constexpr, DQ: tl.constexpr):
    """The share of dQ of the last block, number `block`; dK and dV, as they go to memory, over the consumer's rows of K and V."""
    keys, values, ds = tiles
    _, dk, dv = state
    CONSUMERS: tl.constexpr = keys.shape[0] // 64
    D: tl.constexpr = dk.shape[1]
    if DQ == "tma":
        wait(ds, block + 1)
        hand_over(shares, block, tlx.async_dot_wait(0, share(ds, block + 1, keys[0], me)))
    # Nobody else reads these rows of V; those of K when all consumers have made their last shares of dQ.
    k, v = tlx.local_slice(keys[0], [me * 64, 0], [64, D]), tlx.local_slice(values[0], [me * 64, 0], [64, D])
    tlx.local_store(v, dv.to(v.dtype))
    if DQ == "tma":
        tlx.named_barrier_wait(FINISHED, CONSUMERS * 128)
    tlx.local_store(k, (dk * scale).to(k.dtype))
    tlx.fence("async_shared")
    return k, v


@mimw.jit
def gradients(memory, pipes, batch, head, key, queries, rules, problem, me: tl.constexpr, form):
    """(dK, dV, both in shared memory, their first key) of the 64 keys of consumer `me` among the program's keys from `key` on;
    `queries` is what `span` says of them."""
    D: tl.constexpr = form.D
    BM: tl.constexpr = form.BM
    GROUP: tl.constexpr = form.GROUP
    MASKED: tl.constexpr = form.CAUSAL or problem.left is not None or problem.right is not None
    keys, values, ds = memory.keys, memory.values, memory.ds
    first, blocks, early, late = queries
    key += me * 64
    if form.DQ == "tma":
        tlx.local_store(place_of(ds, 0, me), tl.zeros((64, BM), keys.rows.dtype))
        tlx.fence("async_shared")
        signal(ds, 0)
    tlx.barrier_wait(keys.full[0], 0)
    of_head = rules_of(rules, batch, head * GROUP)
    p = begin(keys, pipes.queries, of_head, first * BM, key, problem, me, MASKED, form)
    tlx.barrier_wait(values.full[0], 0)
    tiles = keys.rows, values.rows, ds
    state = p, tl.zeros((64, D), tl.float32), tl.zeros((64, D), tl.float32)
    block = 0
    # Not known to be one round, the loops inside stay loops, and need fewer registers.
    for g in range(GROUP + problem.opaque_zero):
        of_head = rules_of(rules, batch, head * GROUP + g)
        begun = tl.where(g == 0, 1, 0)  # of the first head, whose first probabilities are there already
        if MASKED:
            for i in range(begun, early):
                state = step(tiles, pipes, block, state, (first + i) * BM, key, of_head, problem, me, False, True, form)
                block += 1
        for i in range(tl.maximum(begun, early), late):
            state = step(tiles, pipes, block, state, (first + i) * BM, key, of_head, problem, me, False, False, form)
            block += 1
        if problem.left is not None:
            for i in range(tl.maximum(begun, late), blocks):
                state = step(tiles, pipes, block, state, (first + i) * BM, key, of_head, problem, me, False, True, form)
                block += 1
    state = step(tiles, pipes, block, state, 0, key, of_head, problem, me, True, False, form)
    k, v = finish(tiles, pipes.shares, block, state, rules.scale, me, form.DQ)
    return k, v, key


@mimw.jit
def compute(memory, pipes, dk_desc, dv_desc, rules, problem, me: tl.constexpr, form):
    """The role: dK and dV of 64 keys, to memory."""
    block, head, batch = program_of(form.BANDS)
    key = block * form.BN
    queries = span(key, problem, form.BM, form.BN, form.CAUSAL)
    k, v, key = gradients(memory, pipes, batch, head, key, queries, rules, problem, me, form)
    tlx.async_descriptor_store(dv_desc, v, [batch, head, key, 0])
    tlx.async_descriptor_store(dk_desc, k, [batch, head, key, 0])
    tlx.async_descriptor_store_wait(0)
