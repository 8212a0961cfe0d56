"""The gradient of the queries of 2-simplicial attention on Hopper: one warp loads with TMA, two warpgroups compute.

Input: descriptors of Q, K, V, dO and dQ, pointers to the second keys and values, lse and delta, and the sizes. Output: dQ is
written. For example:

    grid, args, meta = arguments(q, k, v, k2, v2, do, lse, delta, dq, programs)
    simplicial_attention_backward[grid](*args, **meta)

With p the probabilities of pairs (j, k) and a second key k fixed, dQ = sum over k of (ds K) k2_k, where ds = p (dO' V^T - delta)
and dO' = dO v2_k. So tasks, chunks, pipes and turns are those of the forward kernel, `mimw.kernels.simplicial_attention`, with a
third product beside the two, and dO beside Q:

    queries         load -> both consumers: Q and dO of BH heads of one query, once a task
    keys, values    load -> both consumers: BN rows at a time, CHUNK of them held at once
    halves          consumer 1 -> consumer 0: its sum, for the end of a task
"""

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..consumers import consumer, consumers
from ..simplicial_attention.kernel import load_rows
from ..simplicial_attention.schedule import number_of_tiles, tile_at
from .compute import compute


@mimw.jit
def load(queries, keys, values, q_desc, do_desc, k_desc, v_desc, shape, BH: tl.constexpr, BN: tl.constexpr, GROUP: tl.constexpr):
    """Queries and dO, keys and values, from the last block of a window to its first."""
    turn, first = 0, 0
    for tile in range(tl.program_id(0), number_of_tiles(shape, BH), tl.num_programs(0)):
        batch, head, query, _, low, blocks, _, _ = tile_at(tile, shape, BH, BN)
        slot = queries.acquire(turn)
        tle.gpu.copy(q_desc, tlx.local_reshape(slot.rows, q_desc.block_shape), q_desc.block_shape, [batch, head, query, 0])
        tle.gpu.copy(do_desc, tlx.local_reshape(slot.gradients, do_desc.block_shape), do_desc.block_shape, [batch, head, query, 0])
        queries.commit(turn)
        for block in range(blocks):
            key = low + (blocks - 1 - block) * BN
            load_rows(k_desc, keys, first + block, batch, head // GROUP, key)
            load_rows(v_desc, values, first + block, batch, head // GROUP, key)
        first += blocks
        turn += 1


@mimw.jit
def simplicial_attention_backward(q_desc, k_desc, v_desc, do_desc, dq_desc, k2, v2, lse, delta, scale, batches, heads, seq_q, seq_k,
                                  window, window2, k2_b, k2_h, k2_s, v2_b, v2_h, v2_s, BH: tl.constexpr, BN: tl.constexpr,
                                  D: tl.constexpr, GROUP: tl.constexpr, STAGES: tl.constexpr, CHUNK: tl.constexpr):
    """dQ (batches, heads, seq_q, D).

    args:      k2, v2      rows of D numbers side by side; k2_b ... v2_s are the strides of batches, heads and rows
               lse, delta  (batches, heads, seq_q): natural logarithms of the softmax's denominators, and sum(o do) less the
                           gradient of lse
               scale       of the logits
               window, window2   how many keys, and second keys, a query sees: its own and those before it
               GROUP       query heads to a head of keys and values
               STAGES      blocks of keys, and as many of values, in shared memory; CHUNK or more
    """
    DTYPE: tl.constexpr = tlx.dtype_of(q_desc)
    shape = batches, heads, seq_q, seq_k, window, window2
    seconds = k2, v2, k2_b, k2_h, k2_s, v2_b, v2_h, v2_s
    queries = tle.pipe(capacity=1, readers=consumers(2), name="queries", rows=tle.gpu.alloc([1, BH, D], DTYPE),
                       gradients=tle.gpu.alloc([1, BH, D], DTYPE))
    keys = tle.pipe(capacity=STAGES, readers=consumers(2), name="keys", rows=tle.gpu.alloc([STAGES, BN, D], DTYPE))
    values = tle.pipe(capacity=STAGES, readers=consumers(2), name="values", rows=tle.gpu.alloc([STAGES, BN, D], DTYPE))
    halves = tle.pipe(capacity=1, name="halves", acc=tle.gpu.alloc([1, BH, D], tl.float32))
    scaled, weighed = tle.gpu.alloc([2, BH, D], DTYPE), tle.gpu.alloc([2, BH, D], DTYPE)
    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=240, replicate=2):  # consumer
            me: tl.constexpr = tlx.async_task_replica_id()
            name: tl.constexpr = consumer(me)
            compute(queries.reader(name), scaled[me], weighed[me], keys.reader(name), values.reader(name), halves, dq_desc, seconds,
                    lse, delta, scale, shape, me, BH, BN, D, GROUP, CHUNK)
        with tlx.async_task(num_warps=1, num_regs=24):  # producer
            load(queries.writer(), keys.writer(), values.writer(), q_desc, do_desc, k_desc, v_desc, shape, BH, BN, GROUP)
