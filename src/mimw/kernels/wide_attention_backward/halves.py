"""draft"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..attention_backward.buffers import tile_once
from ..attention_backward.compute import FINISHED, gradients_of_scores, probabilities, signal, wait
from ..attention_backward.kernel import load_once
from ..attention_backward.nouns import Operands, Problem, Rules, Tiles
from ..attention_backward.order import program_of
from ..attention_backward.schedule import span
from ..attention_backward.scores import rules_of
from ..attention_backward.sums import BLOCK_COLUMNS, share_of
from ..consumers import consumer, consumers

HALF = tl.constexpr(96)


@tle.struct
class Shares:
    """One place for shares of dQ, which the consumers fill in turn."""

    tile: Any
    full: Any
    read: Any


@tle.struct
class Memory:
    keys: Tiles
    values: Tiles
    queries: Any
    slopes: Any
    ds: Any
    shares: Shares


@mimw.jit
def place(ds, chunk, me: tl.constexpr, form):
    return tlx.local_slice(ds.rows[chunk % 2], [me * 64, 0], [64, form.BM])


@mimw.jit
def memory_of(form, DV: tl.constexpr, Q_STAGES: tl.constexpr, DO_STAGES: tl.constexpr, DTYPE: tl.constexpr):
    C: tl.constexpr = form.BN // 64
    BM: tl.constexpr = form.BM
    keys = Tiles(tlx.local_alloc((64, HALF), DTYPE, 2 * C), tlx.alloc_barriers(1))
    values = tile_once(form.BN, DV, DTYPE)
    queries = tle.pipe(capacity=Q_STAGES, readers=consumers(C), name="queries", left=tle.gpu.alloc([Q_STAGES, BM, HALF], DTYPE),
                       right=tle.gpu.alloc([Q_STAGES, BM, HALF], DTYPE), numbers=tle.gpu.alloc([Q_STAGES, BM], tl.float32))
    slopes = tle.pipe(capacity=DO_STAGES, readers=consumers(C), name="slopes", rows=tle.gpu.alloc([DO_STAGES, BM, DV], DTYPE),
                      numbers=tle.gpu.alloc([DO_STAGES, BM], tl.float32))
    shares = Shares(tlx.local_alloc((BM * HALF // BLOCK_COLUMNS, BLOCK_COLUMNS), tl.float32, 1), tlx.alloc_barriers(C),
                    tlx.alloc_barriers(C))
    return Memory(keys, values, queries, slopes, Tiles(tlx.local_alloc((form.BN, form.BM), DTYPE, 2), tlx.alloc_barriers(2, C)), shares)


@mimw.jit
def hand_over(shares, block, dq, me: tl.constexpr):
    tlx.barrier_wait(shares.read[1 - me], (block + me + 1) & 1)
    tlx.local_store(shares.tile[0], share_of(dq) if dq.shape[0] == 64 else tl.zeros(shares.tile[0].shape, tl.float32))
    tlx.fence("async_shared")
    tlx.barrier_arrive(shares.full[me])


@mimw.jit
def packed(p):
    return (tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [p[0]], p[0].dtype, True, 2), )


@mimw.jit
def minus(numbers):
    delta = tlx.local_load(numbers)
    return tl.broadcast_to(-delta[None, :], (64, numbers.shape[0]))


@mimw.jit
def share(ds, chunk, keys, me: tl.constexpr, form):
    C: tl.constexpr = form.BN // 64
    dq = None
    for c in tl.static_range(C):
        dq = tlx.async_dot(tlx.local_trans(place(ds, chunk, c, form)), keys[2 * c + me], dq)
    return dq


@mimw.jit
def step(memory, pipes, block, state, query, key, rules, problem, me: tl.constexpr, MASKED: tl.constexpr, EARLY: tl.constexpr, MODE: tl.constexpr,
         form):
    queries, slopes = pipes
    ds, shares = memory.ds, memory.shares
    left, right, dv = state
    zero = block & problem.opaque_zero
    keys = memory.keys.rows
    v = tlx.local_slice(memory.values.rows[zero], [me * 64, 0], [64, memory.values.rows.shape[1]])
    seen = queries.wait(block).slot
    scores = tlx.async_dot(keys[2 * me + zero], tlx.local_trans(seen.left))
    scores = tlx.async_dot(keys[2 * me + 1 + zero], tlx.local_trans(seen.right), scores)
    scores = tlx.async_dot_wait(0, scores)
    p = probabilities(scores, tlx.local_load(seen.numbers), query, key, rules, problem, keys.dtype, MASKED, form)
    p = packed(p)
    slope = slopes.wait(block).slot
    dp = tlx.async_dot(v, tlx.local_trans(slope.rows), minus(slope.numbers))
    if MODE == 11:
        dp = tlx.async_dot_wait(0, dp)
        tile = (p[len(p) - 1].to(tl.float32) * dp).to(slope.rows.dtype)
        wait(ds, block, form)
        dv = tlx.async_dot(p[0], slope.rows, dv)
        left = tlx.async_dot(tile, seen.left, left)
        right = tlx.async_dot(tile, seen.right, right)
        tlx.local_store(place(ds, block + 1, me, form), tile)
        tlx.fence("async_shared")
        signal(ds, block + 1, form)
        dv = tlx.async_dot_wait(2, dv)
        slopes.release(block)
    else:
        dv = tlx.async_dot(p[0], slope.rows, dv)
        dp = tlx.async_dot_wait(1, dp)
        tile = (p[len(p) - 1].to(tl.float32) * dp).to(slope.rows.dtype)
        wait(ds, block, form)
        if MODE == 14:
            dv = tlx.async_dot_wait(0, dv)
            slopes.release(block)
            left = tlx.async_dot(tile, seen.left, left)
            right = tlx.async_dot(tile, seen.right, right)
            tlx.local_store(place(ds, block + 1, me, form), tile)
            tlx.fence("async_shared")
            signal(ds, block + 1, form)
        elif MODE == 15:
            tlx.local_store(place(ds, block + 1, me, form), tile)
            tlx.fence("async_shared")
            signal(ds, block + 1, form)
            dv = tlx.async_dot_wait(0, dv)
            slopes.release(block)
            left = tlx.async_dot(tile, seen.left, left)
            right = tlx.async_dot(tile, seen.right, right)
        else:
            tlx.local_store(place(ds, block + 1, me, form), tile)
            tlx.fence("async_shared")
            signal(ds, block + 1, form)
            dv = tlx.async_dot_wait(0, dv)
            slopes.release(block)
            dq = share(ds, block, keys, me, form)
            left = tlx.async_dot(place(ds, block + 1, me, form), seen.left, left)
            right = tlx.async_dot(place(ds, block + 1, me, form), seen.right, right)
            dq = tlx.async_dot_wait(2, dq)
            if block > 0:
                hand_over(shares, block - 1, dq, me)
    left = tlx.async_dot_wait(0, left)
    right = tlx.async_dot_wait(0, right)
    queries.release(block)
    if MODE != 13:
        dq = share(ds, block, keys, me, form)
        dq = tlx.async_dot_wait(0, dq)
        if block > 0:
            hand_over(shares, block - 1, dq, me)
    return left, right, dv


@mimw.jit
def steps(memory, pipes, at, rules, problem, me: tl.constexpr, MASKED: tl.constexpr, EARLY: tl.constexpr, MODE: tl.constexpr, form):
    batch, head, key, queries = at
    first, blocks, early, late = queries
    BM: tl.constexpr = form.BM
    GROUP: tl.constexpr = form.GROUP
    tlx.barrier_wait(memory.values.full[0], 0)
    state = (tl.zeros((64, HALF), tl.float32), tl.zeros((64, HALF), tl.float32),
             tl.zeros((64, memory.values.rows.shape[1]), tl.float32))
    block = 0
    for g in range(GROUP + problem.opaque_zero):
        of_head = rules_of(rules, batch, head * GROUP + g)
        if MASKED:
            for i in range(0, early):
                state = step(memory, pipes, block, state, (first + i) * BM, key, of_head, problem, me, True, EARLY, MODE, form)
                block += 1
        for i in range(early, late):
            state = step(memory, pipes, block, state, (first + i) * BM, key, of_head, problem, me, False, EARLY, MODE, form)
            block += 1
        if problem.left is not None:
            for i in range(late, blocks):
                state = step(memory, pipes, block, state, (first + i) * BM, key, of_head, problem, me, True, EARLY, MODE, form)
                block += 1
    return block - 1, state


@mimw.jit
def compute(memory, dk_desc, dv_desc, rules, problem, me: tl.constexpr, EARLY: tl.constexpr, MODE: tl.constexpr, form):
    number, head, batch = program_of(form.BANDS)
    key = number * form.BN
    queries = span(key, problem, form.BM, form.BN, form.CAUSAL)
    C: tl.constexpr = form.BN // 64
    MASKED: tl.constexpr = form.CAUSAL or problem.left is not None or problem.right is not None
    name: tl.constexpr = consumer(me)
    pipes = memory.queries.reader(name), memory.slopes.reader(name)
    key += me * 64
    keys, ds = memory.keys.rows, memory.ds
    tlx.local_store(place(ds, 0, me, form), tl.zeros((64, form.BM), keys.dtype))
    tlx.fence("async_shared")
    signal(ds, 0, form)
    tlx.barrier_wait(memory.keys.full[0], 0)
    block, (left, right, dv) = steps(memory, pipes, (batch, head, key, queries), rules, problem, me, MASKED, EARLY, MODE, form)
    if True:
      wait(ds, block + 1, form)
      if form.BM == 64:
          hand_over(memory.shares, block, tlx.async_dot_wait(0, share(ds, block + 1, keys, me, form)), me)
      else:
          hand_over(memory.shares, block, tl.zeros((form.BM, 96), tl.float32), me)
    v = tlx.local_slice(memory.values.rows[0], [me * 64, 0], [64, dv.shape[1]])
    tlx.local_store(v, dv.to(v.dtype))
    tlx.named_barrier_wait(FINISHED, C * 128)
    tlx.local_store(keys[2 * me], (left * rules.scale).to(v.dtype))
    tlx.local_store(keys[2 * me + 1], (right * rules.scale).to(v.dtype))
    tlx.fence("async_shared")
    tlx.async_descriptor_store(dv_desc, v, [batch, head, key, 0])
    tlx.async_descriptor_store(dk_desc, keys[2 * me], [batch, head, key, 0])
    tlx.async_descriptor_store(dk_desc, keys[2 * me + 1], [batch, head, key, HALF])
    tlx.async_descriptor_store_wait(0)


@mimw.jit
def load_queries(of, pipe, block, batch, head, heads, query):
    slot = pipe.acquire(block)
    tle.gpu.copy(of.q, tlx.local_reshape(slot.left, of.q.block_shape), of.q.block_shape, [batch, head, query, 0])
    tle.gpu.copy(of.q, tlx.local_reshape(slot.right, of.q.block_shape), of.q.block_shape, [batch, head, query, HALF])
    tle.gpu.copy(of.lse, tlx.local_reshape(slot.numbers, of.lse.block_shape), of.lse.block_shape, [batch * heads + head, query])
    pipe.commit(block)


@mimw.jit
def load_slopes(of, pipe, block, batch, head, heads, query):
    slot = pipe.acquire(block)
    tle.gpu.copy(of.do, tlx.local_reshape(slot.rows, of.do.block_shape), of.do.block_shape, [batch, head, query, 0])
    tle.gpu.copy(of.delta, tlx.local_reshape(slot.numbers, of.delta.block_shape), of.delta.block_shape,
                 [batch * heads + head, query])
    pipe.commit(block)


@mimw.jit
def load(memory, of, problem, form):
    C: tl.constexpr = form.BN // 64
    GROUP: tl.constexpr = form.GROUP
    heads, queries, slopes = problem.heads, memory.queries.writer(), memory.slopes.writer()
    number, head, batch = program_of(form.BANDS)
    key = number * form.BN
    first, blocks, _, _ = span(key, problem, form.BM, form.BN, form.CAUSAL)
    for block in range(blocks * GROUP):
        query_head, query = head * GROUP + block // blocks, (first + block % blocks) * form.BM
        if block == 0:
            tlx.barrier_expect_bytes(memory.keys.full[0], C * 2 * 64 * HALF * tlx.size_of(tlx.dtype_of(of.k)))
            for c in tl.static_range(C):
                for half in tl.static_range(2):
                    tlx.async_descriptor_load(of.k, memory.keys.rows[2 * c + half], [batch, head, key + c * 64, half * HALF],
                                              memory.keys.full[0])
        load_queries(of, queries, block, batch, query_head, heads, query)
        if block == 0:
            load_once(of.v, memory.values, batch, head, key)
        load_slopes(of, slopes, block, batch, query_head, heads, query)


@mimw.jit
def store(shares, sums_desc, problem, form):
    C: tl.constexpr = form.BN // 64
    block, head, batch = program_of(form.BANDS)
    first, blocks, _, _ = span(block * form.BN, problem, form.BM, form.BN, form.CAUSAL)
    heads_apart = tl.cdiv(problem.seq_q, form.BM)
    of_head = (batch * problem.heads + head * form.GROUP) * heads_apart
    ROWS: tl.constexpr = form.BM * HALF // BLOCK_COLUMNS
    for block in range(blocks * form.GROUP):
        row = (of_head + block // blocks * heads_apart + first + block % blocks) * (C * ROWS)
        for c in tl.static_range(C):
            tlx.barrier_wait(shares.full[c], block & 1)
            tlx.async_descriptor_store(sums_desc, shares.tile[0], [row + c * ROWS, 0], store_reduce="add")
            tlx.async_descriptor_store_wait(0)
            tlx.barrier_arrive(shares.read[c])


@mimw.jit
def wide_gradients(q_desc, k_desc, v_desc, do_desc, lse_desc, delta_desc, sums, dk_desc, dv_desc, measures, changes,
                   EARLY: tl.constexpr, MODE: tl.constexpr, FORM: tl.constexpr):
    form = FORM.form
    C: tl.constexpr = form.BN // 64
    DTYPE: tl.constexpr = tlx.dtype_of(q_desc)
    problem = Problem(measures.heads, measures.seq_q, measures.seq_k, measures.left, measures.right, measures.zero)
    rules = Rules(measures.scale, measures.log2_scale, changes.inner, changes.slopes, changes.step)
    memory = memory_of(form, FORM.DV, FORM.Q_STAGES, FORM.DO_STAGES, DTYPE)
    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=240, replicate=C):  # consumer
            me: tl.constexpr = tlx.async_task_replica_id()
            compute(memory, dk_desc, dv_desc, rules, problem, me, EARLY, MODE, form)
        with tlx.async_task(num_warps=1, num_regs=24):  # producer
            load(memory, Operands(q_desc, k_desc, v_desc, do_desc, lse_desc, delta_desc), problem, form)
        with tlx.async_task(num_warps=1, num_regs=24):  # writer of dQ
            store(memory.shares, sums, problem, form)
