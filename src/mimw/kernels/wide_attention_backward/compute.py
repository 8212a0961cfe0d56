"""The role of a consumer of heads of up to 192: 64 keys, for which dK and dV add up in registers while blocks of queries go by.

Input: shared memory in halves (halves.py). Output: shares of dQ, dK and dV in memory. For example:

    left, right, dv = state                     sums over the blocks before: dK's halves of the columns, and dV
    state = step(..., block, state, ...)        those with block number `block`; the share of dQ of the last block

Of 240 registers the sums take 160. So a step holds one other tile at a time, where ../attention_backward/compute.py, whose words
these are, holds two or three: scores, then dP^T, then the share of dQ. dS^T is the left operand of dK in shared memory, where dQ
wants it anyway, so nothing of a block is in registers from one step to the next. What threads do has a product beside it that takes
no registers of its own:

    exponentials        the right half of dK, of the block before: only now, since there is nothing else
    the store of dS^T   dV
    the share of dQ     the left half of dK

A slot of dS^T is written by a consumer when both have read it: two slots do, since who announces its part has read the one before.
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx

from ..attention_backward.compute import FINISHED, place_of, probabilities, signal, wait
from ..attention_backward.order import program_of
from ..attention_backward.scores import rules_of
from ..consumers import consumer
from .halves import CONSUMERS, HALF, blocks_of
from .shares import hand_over

STORED = tl.constexpr(9)    # named barriers, one a consumer: all of its warps have stored their rows of dS^T


@mimw.jit
def share(ds, chunk, keys, me: tl.constexpr):
    """Half of the columns of dQ, of a chunk of dS^T."""
    dq = None
    for c in tl.static_range(CONSUMERS):
        dq = tlx.async_dot(tlx.local_trans(place_of(ds, chunk, c)), keys[2 * c + me], dq)
    return dq


@mimw.jit
def times(p, dp):
    """p dp in fp32, of weights that lie in pairs in a register: the compiler would take each out of its pair beside the product for
    dp, and there is no room."""
    if p.dtype == tl.bfloat16:
        text: tl.constexpr = "{ shl.b32 $0, $2, 16; and.b32 $1, $2, 0xffff0000; mul.f32 $0, $0, $3; mul.f32 $1, $1, $4; }"
        return tl.inline_asm_elementwise(text, "=&f,=&f,r,f,f", [p, dp], tl.float32, True, 2)
    else:
        return tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [p], p.dtype, True, 2).to(tl.float32) * dp


@mimw.jit
def gradients_of_scores(weight, v, slope):
    """dS^T of a block of queries. The sums of dP^T begin at - delta, which so takes no registers beside them."""
    delta = tlx.local_load(slope.numbers)
    dp = tlx.async_dot(v, tlx.local_trans(slope.rows), tl.broadcast_to(-delta[None, :], (v.shape[0], delta.shape[0])))
    return times(weight, tlx.async_dot_wait(0, dp)).to(v.dtype)


@mimw.jit
def step(memory, pipes, block, state, query, key, rules, problem, me: tl.constexpr, MASKED: tl.constexpr, form):
    """The gradients of block number `block`, whose first query is `query`, but for the right half of dK: that of the last block. Of
    the first one that is of a dS of zeros."""
    queries, slopes = pipes
    left, right, dv = state
    keys, values, ds = memory.keys.rows, memory.values.rows, memory.ds
    zero = block & problem.opaque_zero      # ../attention_backward/compute.py says what for
    seen = queries.wait(block).slot
    scores = tlx.async_dot(keys[2 * me + zero], tlx.local_trans(seen.left))
    scores = tlx.async_dot(keys[2 * me + 1 + zero], tlx.local_trans(seen.right), scores)
    right = tlx.async_dot(place_of(ds, block, me), queries.held(tl.maximum(block - 1, 0)).right, right)
    scores = tlx.async_dot_wait(1, scores)
    p = probabilities(scores, tlx.local_load(seen.numbers), query, key, rules, problem, keys.dtype, MASKED, form)
    slope = slopes.wait(block).slot
    right = tlx.async_dot_wait(0, right)
    if block > 0:
        queries.release(block - 1)
    v = tlx.local_slice(values[zero], [me * 64, 0], [64, values.shape[1]])
    tile = gradients_of_scores(p[len(p) - 1], v, slope)
    wait(ds, block)
    dv = tlx.async_dot(p[0], slope.rows, dv)
    tlx.local_store(place_of(ds, block + 1, me), tile)
    tlx.fence("async_shared")
    tlx.named_barrier_wait(STORED + me, 128)
    dv = tlx.async_dot_wait(0, dv)
    slopes.release(block)
    dq = share(ds, block, keys, me)
    left = tlx.async_dot(place_of(ds, block + 1, me), seen.left, left)
    dq = tlx.async_dot_wait(1, dq)
    signal(ds, block + 1)
    if block > 0:
        hand_over(memory.shares, block - 1, dq, me)
    return tlx.async_dot_wait(0, left), right, dv


@mimw.jit
def sums_of_steps(memory, pipes, at, rules, problem, me: tl.constexpr, form):
    """(the number of the last block, sums) of the keys at `at`: (batch, head, first key, the blocks of their queries)."""
    batch, head, key, (first, blocks, early, late) = at
    BM: tl.constexpr = form.BM
    GROUP: tl.constexpr = form.GROUP
    DV: tl.constexpr = memory.values.rows.shape[1]
    state = tl.zeros((64, HALF), tl.float32), tl.zeros((64, HALF), tl.float32), tl.zeros((64, DV), tl.float32)
    block = 0
    for g in range(GROUP + problem.opaque_zero):        # not known to be one round, as there
        of_head = rules_of(rules, batch, head * GROUP + g)
        if form.CAUSAL or problem.left is not None or problem.right is not None:
            for i in range(early):
                state = step(memory, pipes, block, state, (first + i) * BM, key, of_head, problem, me, True, form)
                block += 1
        for i in range(early, late):
            state = step(memory, pipes, block, state, (first + i) * BM, key, of_head, problem, me, False, form)
            block += 1
        if problem.left is not None:
            for i in range(late, blocks):
                state = step(memory, pipes, block, state, (first + i) * BM, key, of_head, problem, me, True, form)
                block += 1
    return block - 1, state


@mimw.jit
def finish(memory, queries, block, sums, scale, me: tl.constexpr):
    """The share of dQ of the last block, number `block`, and its right half of dK; dK's halves and dV, as they go to memory, over
    the consumer's rows of K and V."""
    keys, values, ds = memory.keys.rows, memory.values.rows, memory.ds
    left, right, dv = sums
    right = tlx.async_dot_wait(0, tlx.async_dot(place_of(ds, block + 1, me), queries.held(block).right, right))
    queries.release(block)
    wait(ds, block + 1)
    hand_over(memory.shares, block, tlx.async_dot_wait(0, share(ds, block + 1, keys, me)), me)
    v = tlx.local_slice(values[0], [me * 64, 0], [64, values.shape[1]])
    tlx.local_store(v, dv.to(v.dtype))
    tlx.named_barrier_wait(FINISHED, CONSUMERS * 128)       # both have made their last shares: nobody reads K any more
    tlx.local_store(keys[2 * me], (left * scale).to(v.dtype))
    tlx.local_store(keys[2 * me + 1], (right * scale).to(v.dtype))
    tlx.fence("async_shared")
    return keys[2 * me], keys[2 * me + 1], v


@mimw.jit
def compute(memory, dk_desc, dv_desc, rules, problem, me: tl.constexpr, form):
    """The role: dK and dV of 64 keys, to memory."""
    number, head, batch = program_of(form.BANDS)
    queries = blocks_of(number * form.BN, problem, form)
    key = number * form.BN + me * 64
    pipes = memory.queries.reader(consumer(me)), memory.slopes.reader(consumer(me))
    tlx.local_store(place_of(memory.ds, 0, me), tl.zeros((64, form.BM), memory.keys.rows.dtype))
    tlx.fence("async_shared")
    signal(memory.ds, 0)
    tlx.barrier_wait(memory.keys.full[0], 0)
    tlx.barrier_wait(memory.values.full[0], 0)
    block, sums = sums_of_steps(memory, pipes, (batch, head, key, queries), rules, problem, me, form)
    left, right, v = finish(memory, pipes[0], block, sums, rules.scale, me)
    tlx.async_descriptor_store(dv_desc, v, [batch, head, key, 0])
    tlx.async_descriptor_store(dk_desc, left, [batch, head, key, 0])
    tlx.async_descriptor_store(dk_desc, right, [batch, head, key, HALF])
    tlx.async_descriptor_store_wait(0)
