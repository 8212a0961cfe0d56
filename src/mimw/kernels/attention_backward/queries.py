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

import triton
import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from .buffers import memory_of_queries, read, written
from .kernel import load_once
from .nouns import Operands, of_launch
from .order import program_of, sizes_of
from .scores import rules_of, weights


@mimw.jit
def keys_of(query, problem, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr):
    """(first block of keys, number of blocks, from which number on the BM queries from `query` on see all keys to their left, and
    from which on they do not see all to their right). Blocks are counted from the first one."""
    seq_q, seq_k, left, right = problem.seq_q, problem.seq_k, problem.left, problem.right
    ahead = seq_k - seq_q
    ends, low, late, early = seq_k, 0, seq_k // BN, 0
    if CAUSAL or right is not None:
        reach = ahead if CAUSAL else ahead + right
        ends = tl.minimum(query + BM + reach, seq_k)
        late = tl.minimum(tl.maximum(query + reach + 1, 0) // BN, late)
    if left is not None:
        low = tl.maximum(query + ahead - left, 0) // BN
        early = tl.cdiv(tl.maximum(query + BM - 1 + ahead - left, 0), BN)
    return low, tl.cdiv(ends, BN) - low, early - low, late - low


@mimw.jit
def load_block(desc, pipe, block, batch, head, low, BN: tl.constexpr):
    """Block number `block` of keys or values, counted from block `low` on."""
    slot = pipe.acquire(block)
    tle.gpu.copy(desc, tlx.local_reshape(slot.rows, desc.block_shape), desc.block_shape, [batch, head, (low + block) * BN, 0])
    pipe.commit(block)


@mimw.jit
def load(to, of, query, problem, form):
    """Queries and dO once, then keys and values, keys a block ahead."""
    BN: tl.constexpr = form.BN
    GROUP: tl.constexpr = form.GROUP
    _, head, batch = program_of(form.BANDS)
    low, blocks, _, _ = keys_of(query, problem, form.BM, BN, form.CAUSAL)
    load_once(of.q, to.queries, batch, head, query)
    load_block(of.k, to.keys, 0, batch, head // GROUP, low, BN)
    load_once(of.do, to.slopes, batch, head, query)
    for block in range(1, blocks):
        load_block(of.v, to.values, block - 1, batch, head // GROUP, low, BN)
        load_block(of.k, to.keys, block, batch, head // GROUP, low, BN)
    load_block(of.v, to.values, blocks - 1, batch, head // GROUP, low, BN)


@mimw.jit
def step(streams, block, state, numbers, rules, query, low, problem, me: tl.constexpr, LAST: tl.constexpr, MASKED: tl.constexpr,
         form):
    """dQ += dS K of block number `block` of keys beside the probabilities of the next."""
    queries, slopes, keys, values = streams.queries.rows, streams.slopes.rows, streams.keys, streams.values
    weight, dq = state
    lse, delta = numbers
    zero = block & problem.opaque_zero  # keeps the addresses of Q and dO from being held in registers, as in compute.py
    q = tlx.local_slice(queries[zero], [me * 64, 0], [64, dq.shape[1]])
    do = tlx.local_slice(slopes[zero], [me * 64, 0], [64, slopes.shape[1]])
    dp = tlx.async_dot(do, tlx.local_trans(values.wait(block).slot.rows))
    dp = tlx.async_dot_wait(0, dp)
    values.release(block)
    ds = (weight.to(tl.float32) * (dp - delta[:, None])).to(q.dtype)
    if not LAST:
        scores = tlx.async_dot(q, tlx.local_trans(keys.wait(block + 1).slot.rows))
    dq = tlx.async_dot(ds, keys.held(block).rows, dq)
    if not LAST:
        scores = tlx.async_dot_wait(1, scores)
        weight = weights_of(scores, lse, query, (low + block + 1) * form.BN, rules, problem, kept_as(q), MASKED, form)
        values.wait(block + 1)  # needed next anyway: it keeps the wait for dQ behind the exponentials
    dq = tlx.async_dot_wait(0, dq)
    keys.release(block)
    return weight, dq


@triton.constexpr_function
def kept_as(q):
    """The type of P beside the product for dQ: with sums of 256 columns there are no registers for more than 16 bits."""
    return q.dtype if q.shape[1] > 128 else tl.float32


@mimw.jit
def weights_of(scores, lse, query, key, rules, problem, TYPE: tl.constexpr, MASKED: tl.constexpr, form):
    """P of the queries from `query` and the keys from `key` on, times the derivative of the soft cap."""
    positions = query + (problem.seq_k - problem.seq_q) + tl.arange(0, scores.shape[0])
    keys = key + tl.arange(0, scores.shape[1])
    _, weight = weights(scores, lse[:, None], keys[None, :], positions[:, None], rules, problem, MASKED, form)
    return weight.to(TYPE)


@mimw.jit
def gradients(streams, numbers, scale, of_head, query, span, problem, me: tl.constexpr, form):
    """dQ, over Q in shared memory, of consumer `me`, whose queries begin at `query`; `numbers` are their log-sum-exps and deltas,
    `span` is what `keys_of` says of all the program's queries."""
    D: tl.constexpr = form.D
    low, blocks, early, late = span
    whole = form.replace(RAGGED=False)      # for blocks of keys without an end
    lse, delta = numbers
    q = tlx.local_slice(streams.queries.rows[0], [me * 64, 0], [64, D])
    tlx.barrier_wait(streams.queries.full[0], 0)
    scores = tlx.async_dot(q, tlx.local_trans(streams.keys.wait(0).slot.rows))
    scores = tlx.async_dot_wait(0, scores)
    weight = weights_of(scores, lse, query, low * form.BN, of_head, problem, kept_as(q), True, form)
    tlx.barrier_wait(streams.slopes.full[0], 0)
    state = weight, tl.zeros((64, D), tl.float32)
    # A step makes the probabilities of the block behind its own: those of blocks 1 to early - 1 and from `late` on need masks.
    last = blocks - 1
    begin = tl.minimum(tl.maximum(early - 1, 0), last)
    end = tl.minimum(tl.maximum(late - 1, begin), last)
    if problem.left is not None:
        for block in range(0, begin):
            state = step(streams, block, state, numbers, of_head, query, low, problem, me, False, True, form)
    for block in range(begin, end):
        state = step(streams, block, state, numbers, of_head, query, low, problem, me, False, False, whole)
    for block in range(end, last):
        state = step(streams, block, state, numbers, of_head, query, low, problem, me, False, True, form)
    _, dq = step(streams, last, state, numbers, of_head, query, low, problem, me, True, False, whole)
    tlx.local_store(q, (dq * scale).to(q.dtype))  # over Q, of which nobody else reads these rows
    tlx.fence("async_shared")
    return q


@mimw.jit
def compute(streams, rows, dq_desc, rules, query, padded, problem, me: tl.constexpr, form):
    """The role: the 64 queries of consumer `me`."""
    _, head, batch = program_of(form.BANDS)
    span = keys_of(query, problem, form.BM, form.BN, form.CAUSAL)
    query += me * 64
    mine = query + tl.arange(0, 64)
    at = (batch * problem.heads + head).to(tl.int64) * padded + mine
    lse = tl.load(rows + at, mask=mine < padded, other=float("inf"))
    delta = tl.load(rows + sizes_of(form.BANDS)[1].to(tl.int64) * padded + at, mask=mine < padded, other=0.0)
    of_head = rules_of(rules, batch, head)
    numbers = lse, delta
    q = gradients(streams, numbers, rules.scale, of_head, query, span, problem, me, form)
    tlx.async_descriptor_store(dq_desc, q, [batch, head, query, 0])
    tlx.async_descriptor_store_wait(0)


@mimw.jit
def query_gradients(q_desc, k_desc, v_desc, do_desc, dq_desc, rows, measures, changes, FORM: tl.constexpr,
                    MOD: tl.constexpr = None):
    """dQ (batches, heads, seq_q, up to D), of values of up to DV columns; columns of tiles that the tensors lack are read as 0.

    args:      rows    lse and delta as `before` makes them, (2, batches heads, padded)
               measures, changes, MOD   as those of kernel.py
               FORM    a QueriesForm. BANDS says which program has which block of queries: order.py, from the last block on
    """
    form = FORM.form
    CONSUMERS: tl.constexpr = form.BM // 64
    DTYPE: tl.constexpr = tlx.dtype_of(q_desc)
    problem, rules = of_launch(measures, changes, MOD)
    streams = memory_of_queries(form, FORM.DV, FORM.K_STAGES, FORM.V_STAGES, DTYPE)
    query = (sizes_of(form.BANDS)[0] - 1 - program_of(form.BANDS)[0]) * form.BM  # under a causal mask the long ones first
    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=240, replicate=CONSUMERS):  # consumer
            me: tl.constexpr = tlx.async_task_replica_id()
            compute(read(streams, me), rows, dq_desc, rules, query, measures.padded, problem, me, form)
        with tlx.async_task(num_warps=1, num_regs=24):  # producer
            load(written(streams), Operands(q_desc, k_desc, v_desc, do_desc, None, None),
                 query, problem, form)
