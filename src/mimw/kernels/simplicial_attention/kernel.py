"""O = softmax over pairs (j, k) of scale sum_d q_d k_jd k2_kd, times v_j v2_k, on Hopper: one warp loads with TMA, two warpgroups
compute.

Input: descriptors of Q, K, V and O, pointers to the second keys and values, and nouns of a launch (nouns.py). Output: O and lse are
written. For example:

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
from .nouns import Inputs, Operands, Results, SecondArrays
from .schedule import number_of_tiles, tile_at


@mimw.jit
def copy(desc, tile, batch, head, row):
    """Start the copy of a tile of a batch from a head and a row on."""
    tle.gpu.copy(desc, tlx.local_reshape(tile, desc.block_shape), desc.block_shape, [batch, head, row, 0])


@mimw.jit
def load(inputs, operands, problem, form):
    """Queries, with their dO if there is one, keys and values, from the last block of a window to its first."""
    turn, first = 0, 0
    for tile in range(tl.program_id(0), number_of_tiles(problem, form), tl.num_programs(0)):
        task = tile_at(tile, problem, form)
        slot = inputs.queries.acquire(turn)
        copy(operands.q, slot.rows, task.batch, task.head, task.query)
        if operands.do is not None:
            copy(operands.do, slot.gradients, task.batch, task.head, task.query)
        inputs.queries.commit(turn)
        for block in range(task.blocks):
            key = task.low + (task.blocks - 1 - block) * form.BN
            copy(operands.k, inputs.keys.acquire(first + block).rows, task.batch, task.head // form.GROUP, key)
            inputs.keys.commit(first + block)
            copy(operands.v, inputs.values.acquire(first + block).rows, task.batch, task.head // form.GROUP, key)
            inputs.values.commit(first + block)
        first += task.blocks
        turn += 1


@mimw.jit
def simplicial_attention(q_desc, k_desc, v_desc, o_desc, k2, v2, lse, problem, steps, FORM: tl.constexpr):
    """O (batches, heads, seq_q, D), and the natural logarithms of the softmax's denominators, (batches, heads, seq_q). `steps` are
    those of k2 and v2."""
    DTYPE: tl.constexpr = tlx.dtype_of(q_desc)
    STAGES: tl.constexpr = FORM.STAGES
    queries = tle.pipe(capacity=1, readers=consumers(2), name="queries", rows=tle.gpu.alloc([1, FORM.BH, FORM.D], DTYPE))
    keys = tle.pipe(capacity=STAGES, readers=consumers(2), name="keys", rows=tle.gpu.alloc([STAGES, FORM.BN, FORM.D], DTYPE))
    values = tle.pipe(capacity=STAGES, readers=consumers(2), name="values", rows=tle.gpu.alloc([STAGES, FORM.BN, FORM.D], DTYPE))
    halves = tle.pipe(capacity=1, name="halves", acc=tle.gpu.alloc([1, FORM.BH, FORM.D], tl.float32),
                      sums=tle.gpu.alloc([1, 2, FORM.BH], tl.float32))
    results, scaled = tle.gpu.alloc([FORM.BH, FORM.D], DTYPE), tle.gpu.alloc([2, FORM.BH, FORM.D], DTYPE)
    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=240, replicate=2):  # consumer
            me: tl.constexpr = tlx.async_task_replica_id()
            name: tl.constexpr = consumer(me)
            compute(Inputs(queries.reader(name), keys.reader(name), values.reader(name)), scaled[me],
                    Results(halves, results, o_desc, lse), SecondArrays(k2, v2, steps), problem, me, FORM)
        with tlx.async_task(num_warps=1, num_regs=24):  # producer
            load(Inputs(queries.writer(), keys.writer(), values.writer()), Operands(q_desc, None, k_desc, v_desc), problem, FORM)
