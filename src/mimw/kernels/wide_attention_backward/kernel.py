"""dK and dV of heads of more than 128 on Hopper: one consumer has dV of the program's keys, the other one dK.

Input: descriptors of Q, K, V and dO, of each query's log-sum-exp and delta (../attention_backward/rows.py), and the sizes. Output:
dK and dV are written. For example:

    kernel, grid, args, meta = launches(q, k, v, o, lse, do, dq, dk, dv, rows)[1]
    wide_key_gradients[grid](*args, **meta)

64 keys of 256 columns are all that a consumer's registers hold sums for. So the consumers share keys, not products: consumer 0
makes P^T and dV, consumer 1 dP^T, dS^T and dK, and P^T goes from the one to the other through shared memory. Both do the same with
other tiles, the last product of a block beside what makes an operand of the next block's:

    0    P^T = exp2(scale log2(e) K Q^T - lse)      dV += P^T dO
    1    dS^T = P^T (V dO^T - delta)                dK += dS^T Q

Nouns: keys, values, queries, slopes as in ../attention_backward, and `weights`, P^T (with a soft cap, times its derivative) on its
way. Roles: `load` of there, and two times `compute`. dQ is the matter of ../attention_backward/queries.py: no sums are shared, so
all bits are the same in every run.
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..attention_backward.buffers import memory_of_keys
from ..attention_backward.compute import probabilities
from ..attention_backward.kernel import load
from ..attention_backward.nouns import Operands, of_launch
from ..attention_backward.order import program_of
from ..attention_backward.schedule import span
from ..attention_backward.scores import rules_of
from ..consumers import consumer

DONE = tl.constexpr(8)      # named barrier of both consumers: nobody reads K and V any more


@tle.struct
class Side:
    """One consumer's side: its tile of K or V, which meets those of the pipe `first`, the barrier of its load, the pipe whose tiles
    its products meet, the pipe of weights, and the tile whose place the sums take."""

    tiles: Any
    loaded: Any
    first: Any
    second: Any
    weights: Any
    staging: Any


@mimw.jit
def side_of(memory, weights, me: tl.constexpr):
    """The side of consumer `me`: 0 has dV, 1 has dK."""
    name: tl.constexpr = consumer(me)
    keys, values = memory.keys, memory.values
    if me == 0:
        return Side(keys.rows, keys.full, memory.queries.reader(name), memory.slopes.reader(name), weights.writer(), values.rows)
    else:
        return Side(values.rows, values.full, memory.slopes.reader(name), memory.queries.reader(name), weights.reader(), keys.rows)


@mimw.jit
def factor(product, numbers, weights, block, query, key, rules, problem, me: tl.constexpr, TYPE: tl.constexpr, form):
    """The left operand of the product with dO or with Q: P^T of K Q^T, or dS^T of V dO^T."""
    MASKED: tl.constexpr = form.CAUSAL or problem.left is not None or problem.right is not None
    if me == 0:
        p = probabilities(product, numbers, query, key, rules, problem, TYPE, MASKED, form)
        slot = weights.acquire(block)
        tlx.local_store(slot.tile, p[len(p) - 1])
        weights.commit(block)
        return p[0]
    else:
        weight = tlx.local_load(weights.wait(block).slot.tile)
        weights.release(block)
        return (weight.to(tl.float32) * (product - numbers[None, :])).to(TYPE)


@mimw.jit
def gradients(side, factor_of_sum, at, rules, problem, me: tl.constexpr, COLUMNS: tl.constexpr, form):
    """The sums of consumer `me`, of BN keys and COLUMNS columns, in shared memory; `at` is (batch, head, first key)."""
    tiles, first, second, weights = side.tiles, side.first, side.second, side.weights
    batch, head, key = at
    TYPE: tl.constexpr = tiles.dtype
    BM: tl.constexpr = form.BM
    GROUP: tl.constexpr = form.GROUP
    of_head = rules_of(rules, batch, head * GROUP)
    begin, blocks, _, _ = span(key, problem, BM, form.BN, form.CAUSAL)
    tlx.barrier_wait(side.loaded[0], 0)
    begun = first.wait(0).slot
    product = tlx.async_dot(tiles[0], tlx.local_trans(begun.rows))
    numbers = tlx.local_load(begun.numbers)
    product = tlx.async_dot_wait(0, product)
    first.release(0)
    left = factor(product, numbers, weights, 0, begin * BM, key, of_head, problem, me, TYPE, form)
    sums = tl.zeros((form.BN, COLUMNS), tl.float32)
    last = blocks * GROUP - 1
    number, query_head = 0, head * GROUP
    for block in range(last):
        number += 1
        if number == blocks:
            number = 0
            query_head += 1
        of_head = rules_of(rules, batch, query_head)
        zero = block & problem.opaque_zero     # 0: ../attention_backward/compute.py says what for
        slot = first.wait(block + 1).slot
        product = tlx.async_dot(tiles[zero], tlx.local_trans(slot.rows))
        sums = tlx.async_dot(left, second.wait(block).slot.rows, sums)
        product = tlx.async_dot_wait(1, product)
        numbers = tlx.local_load(slot.numbers)
        first.release(block + 1)
        left = factor(product, numbers, weights, block + 1, (begin + number) * BM, key, of_head, problem, me, TYPE, form)
        second.wait(block + 1)      # needed next anyway: it keeps the wait for the sums behind the exponentials
        sums = tlx.async_dot_wait(0, sums)
        second.release(block)
    sums = tlx.async_dot(left, second.wait(last).slot.rows, sums)
    sums = tlx.async_dot_wait(0, sums)
    second.release(last)
    tlx.named_barrier_wait(DONE, 256)
    tlx.local_store(side.staging[0], (sums * factor_of_sum).to(TYPE))
    tlx.fence("async_shared")
    return side.staging[0]


@mimw.jit
def compute(side, desc, factor_of_sum, rules, problem, me: tl.constexpr, COLUMNS: tl.constexpr, form):
    """The role: the sums of consumer `me`, to memory."""
    block, head, batch = program_of(form.BANDS)
    key = block * form.BN
    sums = gradients(side, factor_of_sum, (batch, head, key), rules, problem, me, COLUMNS, form)
    tlx.async_descriptor_store(desc, sums, [batch, head, key, 0])
    tlx.async_descriptor_store_wait(0)


@mimw.jit
def wide_key_gradients(q_desc, k_desc, v_desc, do_desc, lse_desc, delta_desc, dk_desc, dv_desc, measures, changes,
                       FORM: tl.constexpr, MOD: tl.constexpr = None):
    """dK (batches, heads // GROUP, seq_k, up to D), dV (the same, up to DV): columns of tiles that the tensors lack are read as 0.

    args:      measures, changes, FORM, MOD     ../attention_backward's
    """
    form = FORM.form
    DTYPE: tl.constexpr = tlx.dtype_of(q_desc)
    problem, rules = of_launch(measures, changes, MOD)
    memory = memory_of_keys(form, FORM.DV, 2, FORM.Q_STAGES, FORM.DO_STAGES, DTYPE)
    weights = tle.pipe(capacity=2, name="weights", tile=tle.gpu.alloc([2, form.BN, form.BM], DTYPE))

    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=240, replicate=2):  # consumer
            me: tl.constexpr = tlx.async_task_replica_id()
            if me == 0:
                compute(side_of(memory, weights, me), dv_desc, 1.0, rules, problem, me, FORM.DV, form)
            else:
                compute(side_of(memory, weights, me), dk_desc, measures.scale, rules, problem, me, form.D, form)
        with tlx.async_task(num_warps=1, num_regs=24):  # producer
            of = Operands(q_desc, k_desc, v_desc, do_desc, lse_desc, delta_desc)
            load(memory, of, problem, form)
