"""dQ of packed sequences in one order of sums: ../attention_backward/queries.py, for tiles from a list of queries.

Input: descriptors of Q, K, V, dO and dQ that end with a sequence, the numbers of each query (rows.py), and the list of tiles.
Output: dQ is written. For example:

    kernel, grid, args, meta = launches(q, k, v, o, lse, do, dq, dk, dv, cu_q, cu_k, work, 500, 500, one_order=True)[2]
    packed_query_gradients[grid](*args, **meta)

Roles: `load`, two times `compute`. A tile of queries that see no key looks at one block of keys, with probabilities of 0.
"""

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..attention_backward.buffers import memory_of_queries, read, written
from ..attention_backward.nouns import Operands, Problem, Rules
from ..attention_backward.queries import gradients, keys_of
from ..attention_backward.scores import rules_of
from ..attention_varlen.maps import place
from .kernel import load_once
from .tiles import is_one, sizes, tile_of


@mimw.jit
def keys_at(query, problem, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr):
    """The blocks of keys that the queries from `query` on look at, as `keys_of` gives them, but one block at least."""
    low, blocks, early, late = keys_of(query, problem, BM, BN, CAUSAL)
    return low, tl.maximum(blocks, 1), early, late


@mimw.jit
def load_block(desc, pipe, block, k_start, k_length, head, key):
    """Block number `block`, the keys or values from `key` of the sequence on."""
    slot = pipe.acquire(block)
    tle.gpu.copy(desc, tlx.local_reshape(slot.rows, desc.block_shape), desc.block_shape, place(k_start, k_length, head, key))
    pipe.commit(block)


@mimw.jit
def load(to, of, tiles, problem, form):
    """Queries and dO once, then keys and values, keys a block ahead."""
    tile = tile_of(tiles)
    if is_one(tile):
        query, q_start, q_length, k_start, k_length = tile.start, tile.q_start, tile.q_length, tile.k_start, tile.k_length
        BN: tl.constexpr = form.BN
        head = tl.program_id(1)
        of_keys = head // form.GROUP
        low, blocks, _, _ = keys_at(query, sizes(tile, problem), form.BM, BN, form.CAUSAL)
        load_once(of.q, to.queries, q_start, q_length, head, query)
        load_block(of.k, to.keys, 0, k_start, k_length, of_keys, low * BN)
        load_once(of.do, to.slopes, q_start, q_length, head, query)
        for block in range(1, blocks):
            load_block(of.v, to.values, block - 1, k_start, k_length, of_keys, (low + block - 1) * BN)
            load_block(of.k, to.keys, block, k_start, k_length, of_keys, (low + block) * BN)
        load_block(of.v, to.values, blocks - 1, k_start, k_length, of_keys, (low + blocks - 1) * BN)


@mimw.jit
def compute(streams, rows, dq_desc, tiles, rules, head_rows, problem, me: tl.constexpr, ROWS: tl.constexpr, form):
    """The 64 queries of consumer `me`, to memory as far as the sequence reaches."""
    tile = tile_of(tiles)
    if is_one(tile):
        query = tile.start
        head = tl.program_id(1)
        own = sizes(tile, problem)
        span = keys_at(query, own, form.BM, form.BN, form.CAUSAL)
        query += me * 64
        mine = query + tl.arange(0, 64)
        at = head.to(tl.int64) * head_rows + tile.number * ROWS + mine
        lse = tl.load(rows + at, mask=mine < tile.q_length, other=float("inf"))
        delta = tl.load(rows + head_rows.to(tl.int64) * problem.heads + at, mask=mine < tile.q_length, other=0.0)
        of_head = rules_of(rules, tile.sequence, head)
        numbers = lse, delta
        q = gradients(streams, numbers, rules.scale, of_head, query, span, own, me, form)
        again = tile_of(tiles)      # in the loop there is no register for it
        tlx.async_descriptor_store(dq_desc, q, place(again.q_start, again.q_length, head, again.start + me * 64))
        tlx.async_descriptor_store_wait(0)


@mimw.jit(do_not_specialize=["head_rows"])     # new in every call of some: one binary for all
def packed_query_gradients(q_desc, k_desc, v_desc, do_desc, dq_desc, rows, tiles, scale, log2_scale, heads, head_rows, zero, left,
                           right, inner, alibi, alibi_step, ROWS: tl.constexpr, FORM: tl.constexpr):
    """dQ (total_q, heads, up to FORM.form.D), of values of up to FORM.DV columns; columns of tiles that the tensors lack are
    read as 0.

    args:      rows        lse and delta as `before` makes them, (2, heads, head_rows), in blocks of ROWS
               tiles       of queries, the program's own at program_id(0): tiles.py
               zero, scale, log2_scale, left, right, inner, alibi, alibi_step, FORM   ../attention_backward's
    """
    form = FORM.form
    CONSUMERS: tl.constexpr = form.BM // 64
    DTYPE: tl.constexpr = tlx.dtype_of(q_desc)
    problem = Problem(heads, None, None, left, right, zero)
    rules = Rules(scale, log2_scale, inner, alibi, alibi_step)
    streams = memory_of_queries(form, FORM.DV, FORM.K_STAGES, FORM.V_STAGES, DTYPE)
    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=240, replicate=CONSUMERS):  # consumer
            me: tl.constexpr = tlx.async_task_replica_id()
            compute(read(streams, me), rows, dq_desc, tiles, rules, head_rows, problem, me, ROWS, form)
        with tlx.async_task(num_warps=1, num_regs=24):  # producer
            load(written(streams), Operands(q_desc, k_desc, v_desc, do_desc, None, None),
                 tiles, problem, form)
