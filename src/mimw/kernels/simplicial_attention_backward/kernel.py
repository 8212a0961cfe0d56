"""The gradient of the queries of 2-simplicial attention on Hopper: one warp loads with TMA, two warpgroups compute.

Input: descriptors of Q, K, V, dO and dQ, pointers to the second keys and values, lse and delta, and nouns of a launch, as forward.
Output: dQ is written. For example:

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
from ..simplicial_attention.kernel import load
from ..simplicial_attention.nouns import Inputs, Operands, SecondArrays
from .compute import Results, compute


@mimw.jit
def simplicial_attention_backward(q_desc, k_desc, v_desc, do_desc, dq_desc, k2, v2, lse, delta, problem, steps,
                                  FORM: tl.constexpr):
    """dQ (batches, heads, seq_q, D).

    args:      lse, delta  (batches, heads, seq_q): natural logarithms of the softmax's denominators, and sum(o do) less the
                           gradient of lse
               steps       of k2 and v2
    """
    DTYPE: tl.constexpr = tlx.dtype_of(q_desc)
    STAGES: tl.constexpr = FORM.STAGES
    queries = tle.pipe(capacity=1, readers=consumers(2), name="queries", rows=tle.gpu.alloc([1, FORM.BH, FORM.D], DTYPE),
                       gradients=tle.gpu.alloc([1, FORM.BH, FORM.D], DTYPE))
    keys = tle.pipe(capacity=STAGES, readers=consumers(2), name="keys", rows=tle.gpu.alloc([STAGES, FORM.BN, FORM.D], DTYPE))
    values = tle.pipe(capacity=STAGES, readers=consumers(2), name="values", rows=tle.gpu.alloc([STAGES, FORM.BN, FORM.D], DTYPE))
    halves = tle.pipe(capacity=1, name="halves", acc=tle.gpu.alloc([1, FORM.BH, FORM.D], tl.float32))
    scaled, weighed = tle.gpu.alloc([2, FORM.BH, FORM.D], DTYPE), tle.gpu.alloc([2, FORM.BH, FORM.D], DTYPE)
    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=240, replicate=2):  # consumer
            me: tl.constexpr = tlx.async_task_replica_id()
            name: tl.constexpr = consumer(me)
            compute(Inputs(queries.reader(name), keys.reader(name), values.reader(name)), scaled[me], weighed[me],
                    Results(halves, dq_desc, lse, delta), SecondArrays(k2, v2, steps), problem, me, FORM)
        with tlx.async_task(num_warps=1, num_regs=24):  # producer
            load(Inputs(queries.writer(), keys.writer(), values.writer()), Operands(q_desc, do_desc, k_desc, v_desc), problem, FORM)
