"""O = softmax over pairs (j, k) of scale sum_d q_d k_jd k2_kd, times v_j v2_k, on Hopper: one warp loads with TMA, two warpgroups
compute.

Input: descriptors of Q, K, V and O, pointers to the second keys and values, and the sizes. Output: O and lse are written. For
example:

    grid, args, meta = arguments(q, k, v, k2, v2, o, lse, programs)
    simplicial_attention[grid](*args, **meta)

Nouns, all pipes of (rows, D) tiles but the last:

    queries         load -> both consumers: BH heads of one query, once a task
    keys, values    load -> both consumers: BN rows at a time, CHUNK of them held at once
    halves          consumer 1 -> consumer 0: its sums, for the end of a task

With a second key k fixed, what is left is attention with the queries q k2_k, and its result times v2_k is a part of O. The queries
are scaled once for CHUNK blocks of keys, and so are the results: K and V are never touched. The consumers take turns at the
second keys (compute.py), and each sees all K and V, so that both read the same tiles; at the end of a task consumer 1 hands its
sums to consumer 0. A chunk of keys stays in shared memory for all second keys of the window.
"""

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..consumers import consumer, consumers
from .compute import compute
from .schedule import number_of_tiles, tile_at


@mimw.jit
def load_rows(desc, pipe, chunk, batch, head, row):
    """Chunk number `chunk`: a tile of a batch from a head and a row on."""
    slot = pipe.acquire(chunk)
    tle.gpu.copy(desc, tlx.local_reshape(slot.rows, desc.block_shape), desc.block_shape, [batch, head, row, 0])
    pipe.commit(chunk)


@mimw.jit
def load(queries, keys, values, q_desc, k_desc, v_desc, shape, BH: tl.constexpr, BN: tl.constexpr, GROUP: tl.constexpr):
    """Queries, keys and values, from the last block of a window to its first."""
    turn, first = 0, 0
    for tile in range(tl.program_id(0), number_of_tiles(shape, BH), tl.num_programs(0)):
        batch, head, query, _, low, blocks, _, _ = tile_at(tile, shape, BH, BN)
        load_rows(q_desc, queries, turn, batch, head, query)
        for block in range(blocks):
            key = low + (blocks - 1 - block) * BN
            load_rows(k_desc, keys, first + block, batch, head // GROUP, key)
            load_rows(v_desc, values, first + block, batch, head // GROUP, key)
        first += blocks
        turn += 1


@mimw.jit
def simplicial_attention(q_desc, k_desc, v_desc, o_desc, k2, v2, lse, scale, batches, heads, seq_q, seq_k, window, window2, k2_b,
                         k2_h, k2_s, v2_b, v2_h, v2_s, BH: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, GROUP: tl.constexpr,
                         STAGES: tl.constexpr, CHUNK: tl.constexpr):
    """O (batches, heads, seq_q, D), and the natural logarithms of the softmax's denominators, (batches, heads, seq_q).

    args:      k2, v2      rows of D numbers side by side; k2_b ... v2_s are the strides of batches, heads and rows
               scale       of the logits, times log2(e)
               window, window2   how many keys, and second keys, a query sees: its own and those before it
               GROUP       query heads to a head of keys and values
               STAGES      blocks of keys, and as many of values, in shared memory; CHUNK or more
    """
    DTYPE: tl.constexpr = tlx.dtype_of(q_desc)
    shape = batches, heads, seq_q, seq_k, window, window2
    seconds = k2, v2, k2_b, k2_h, k2_s, v2_b, v2_h, v2_s
    queries = tle.pipe(capacity=1, readers=consumers(2), name="queries", rows=tle.gpu.alloc([1, BH, D], DTYPE))
    keys = tle.pipe(capacity=STAGES, readers=consumers(2), name="keys", rows=tle.gpu.alloc([STAGES, BN, D], DTYPE))
    values = tle.pipe(capacity=STAGES, readers=consumers(2), name="values", rows=tle.gpu.alloc([STAGES, BN, D], DTYPE))
    halves = tle.pipe(capacity=1, name="halves", acc=tle.gpu.alloc([1, BH, D], tl.float32),
                      sums=tle.gpu.alloc([1, 2, BH], tl.float32))
    results, scaled = tle.gpu.alloc([BH, D], DTYPE), tle.gpu.alloc([2, BH, D], DTYPE)
    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=240, replicate=2):  # consumer
            me: tl.constexpr = tlx.async_task_replica_id()
            name: tl.constexpr = consumer(me)
            compute(queries.reader(name), scaled[me], keys.reader(name), values.reader(name), halves, results, o_desc, seconds,
                    lse, scale, shape, me, BH, BN, D, GROUP, CHUNK)
        with tlx.async_task(num_warps=1, num_regs=24):  # producer
            load(queries.writer(), keys.writer(), values.writer(), q_desc, k_desc, v_desc, shape, BH, BN, GROUP)
