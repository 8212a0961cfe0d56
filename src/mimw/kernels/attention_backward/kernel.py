"""dK, dV and the shares of dQ on Hopper: a program owns a block of keys and walks over the queries that look at it.

Input: descriptors of Q, K, V and dO, of each query's log-sum-exp and delta (rows.py), and the sizes. Output: dK and dV are written,
dQ is added to fp32 sums in an order of their own (sums.py). For example:

    grid, args, meta = arguments(q, k, v, do, lse, delta, sums, dk, dv)
    attention_backward[grid](*args, **meta)

Nouns:

    keys, values           load -> every consumer, once
    queries                load -> every consumer: BM rows of Q and their log-sum-exps
    slopes                 load -> every consumer: BM rows of dO and their deltas
    ds                     consumer -> every consumer, for dQ: dS^T of a block, of which each consumer makes the rows of its keys
    shares                 compute -> store, one for each consumer: its part of a block's dQ. There are none unless DQ is "tma"

Roles: `load`, CONSUMERS times `compute`, and for DQ "tma" `store`. Blocks of queries are counted by `block`, through all
query heads that share the program's head of keys.
"""

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from .buffers import memory_of_keys, pipes_of
from .compute import compute
from .nouns import Operands, of_launch
from .order import program_of
from .schedule import span
from .sums import store


@mimw.jit
def load_rows(desc, rows_desc, pipe, block, batch, head, heads, query):
    """Block number `block`: BM rows of a query head from `query` on, and a number for each."""
    slot = pipe.acquire(block)
    tle.gpu.copy(desc, tlx.local_reshape(slot.rows, desc.block_shape), desc.block_shape, [batch, head, query, 0])
    tle.gpu.copy(rows_desc, tlx.local_reshape(slot.numbers, rows_desc.block_shape), rows_desc.block_shape,
                 [batch * heads + head, query])
    pipe.commit(block)


@mimw.jit
def load_once(desc, tiles, batch, head, key):
    """The program's block of keys or values."""
    tlx.barrier_expect_bytes(tiles.full[0], tiles.rows.shape[0] * tiles.rows.shape[1] * tlx.size_of(tlx.dtype_of(desc)))
    tlx.async_descriptor_load(desc, tiles.rows[0], [batch, head, key, 0], tiles.full[0])


@mimw.jit
def load(memory, of, problem, form):
    """Keys and values once, blocks of queries and of dO one after the other: the order in which the consumers need them."""
    BM: tl.constexpr = form.BM
    GROUP: tl.constexpr = form.GROUP
    heads, queries, slopes = problem.heads, memory.queries.writer(), memory.slopes.writer()
    number, head, batch = program_of(form.BANDS)
    key = number * form.BN
    first, blocks, _, _ = span(key, problem, BM, form.BN, form.CAUSAL)
    for block in range(blocks * GROUP):
        query_head, query = head * GROUP + block // blocks, (first + block % blocks) * BM
        if block == 0:
            load_once(of.k, memory.keys, batch, head, key)
        load_rows(of.q, of.lse, queries, block, batch, query_head, heads, query)
        if block == 0:
            load_once(of.v, memory.values, batch, head, key)
        load_rows(of.do, of.delta, slopes, block, batch, query_head, heads, query)


@mimw.jit
def attention_backward(q_desc, k_desc, v_desc, do_desc, lse_desc, delta_desc, sums, dk_desc, dv_desc, measures, changes,
                       FORM: tl.constexpr, MOD: tl.constexpr = None):
    """dK, dV (batches, heads // GROUP, seq_k, D), and dQ added to `sums`.

    args:      sums        a descriptor for DQ "tma"; for "not" there is no dQ, and there are no sums
               measures, changes   Measures and Changes (nouns.py). `zero` is 0, which the compiler must not know (compute.py says
                           why); with CAUSAL `right` is None
               FORM        a KeysForm. BANDS says which program has which block of keys: order.py
               MOD         a score_mod's function of (value, derivative), or None
    """
    form = FORM.form
    CONSUMERS: tl.constexpr = form.BN // 64
    DTYPE: tl.constexpr = tlx.dtype_of(q_desc)
    problem, rules = of_launch(measures, changes, MOD)
    memory = memory_of_keys(form, FORM.DV, CONSUMERS, FORM.Q_STAGES, FORM.DO_STAGES, DTYPE)

    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=240, replicate=CONSUMERS):  # consumer
            me: tl.constexpr = tlx.async_task_replica_id()
            compute(memory, pipes_of(memory, me, form), dk_desc, dv_desc, rules, problem, me, form)
        with tlx.async_task(num_warps=1, num_regs=24):  # producer
            of = Operands(q_desc, k_desc, v_desc, do_desc, lse_desc, delta_desc)
            load(memory, of, problem, form)
        if form.DQ == "tma":
            with tlx.async_task(num_warps=1, num_regs=24):  # writer of dQ
                store(memory.shares, sums, problem, form)
