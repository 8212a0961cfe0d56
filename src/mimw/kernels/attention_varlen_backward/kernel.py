"""dK, dV and the shares of dQ of packed sequences on Hopper: a program owns a block of one sequence's keys.

Input: descriptors of Q, K, V, dO, dK and dV that end with a sequence (../attention_varlen/maps.py), of each query's log-sum-exp and
delta (rows.py), and the list of tiles (tiles.py). Output: dK and dV are written, dQ is added to fp32 sums. For example:

    grid, args, meta = launches(q, k, v, o, lse, do, dq, dk, dv, cu_q, cu_k, *work, 500, 500)[1][1:]
    attention_varlen_backward[grid](*args, **meta)

Nouns and roles are ../attention_backward's, and so is all that a consumer computes; what differs is where a program's keys and
their queries lie, which every role reads from the list of tiles. Rows behind a sequence are those of the next one. TMA reads zeros
there, so that products with them are 0 whatever they hold, and writes nothing; queries behind the end have a log-sum-exp of
infinity, and probabilities of keys behind the end are masked.
"""

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..attention_backward.buffers import memory_of_keys, pipes_of
from ..attention_backward.compute import gradients
from ..attention_backward.nouns import Operands, Problem, Rules
from ..attention_backward.schedule import span
from ..attention_backward.sums import add
from ..attention_varlen.maps import place
from .tiles import is_one, sizes, tile_of


@mimw.jit
def load_rows(desc, numbers_desc, pipe, block, q_start, q_length, head, query, number):
    """Block number `block`: a head's rows from `query` of the sequence on, and the numbers from `number` on, one for each."""
    slot = pipe.acquire(block)
    tle.gpu.copy(desc, tlx.local_reshape(slot.rows, desc.block_shape), desc.block_shape, place(q_start, q_length, head, query))
    tle.gpu.copy(numbers_desc, tlx.local_reshape(slot.numbers, numbers_desc.block_shape), numbers_desc.block_shape, [head, number])
    pipe.commit(block)


@mimw.jit
def load_once(desc, tiles, k_start, k_length, head, key):
    """The program's block of keys or values."""
    tlx.barrier_expect_bytes(tiles.full[0], tiles.rows.shape[0] * tiles.rows.shape[1] * tlx.size_of(tlx.dtype_of(desc)))
    tlx.async_descriptor_load(desc, tiles.rows[0], place(k_start, k_length, head, key), tiles.full[0])


@mimw.jit
def load(memory, of, tiles, problem, form):
    """Keys and values once, blocks of queries and of dO one after the other: the order in which the consumers need them."""
    tile = tile_of(tiles)
    if is_one(tile):
        key, q_start, q_length, k_start, k_length = tile.start, tile.q_start, tile.q_length, tile.k_start, tile.k_length
        BM: tl.constexpr = form.BM
        GROUP: tl.constexpr = form.GROUP
        head, queries, slopes = tl.program_id(1), memory.queries.writer(), memory.slopes.writer()
        first, blocks, _, _ = span(key, sizes(tile, problem), BM, form.BN, form.CAUSAL)
        for block in range(blocks * GROUP):
            query_head, query = head * GROUP + block // blocks, (first + block % blocks) * BM
            if block == 0:
                load_once(of.k, memory.keys, k_start, k_length, head, key)
            load_rows(of.q, of.lse, queries, block, q_start, q_length, query_head, query, tile.number * BM + query)
            if block == 0:
                load_once(of.v, memory.values, k_start, k_length, head, key)
            load_rows(of.do, of.delta, slopes, block, q_start, q_length, query_head, query, tile.number * BM + query)


@mimw.jit
def compute(memory, pipes, dk_desc, dv_desc, tiles, rules, problem, me: tl.constexpr, form):
    """dK and dV of 64 keys, to memory as far as the sequence reaches."""
    tile = tile_of(tiles)
    if is_one(tile):
        head = tl.program_id(1)
        own = sizes(tile, problem)
        queries = span(tile.start, own, form.BM, form.BN, form.CAUSAL)
        k, v, _ = gradients(memory, pipes, tile.sequence, head, tile.start, queries, rules, own, me, form)
        again = tile_of(tiles)      # in the loop there is no register for it
        at = place(again.k_start, again.k_length, head, again.start + me * 64)
        tlx.async_descriptor_store(dv_desc, v, at)
        tlx.async_descriptor_store(dk_desc, k, at)
        tlx.async_descriptor_store_wait(0)


@mimw.jit
def store(shares, sums_desc, tiles, head_blocks, problem, form):
    """The shares of dQ, added to the sums."""
    tile = tile_of(tiles)
    if is_one(tile):
        first, blocks, _, _ = span(tile.start, sizes(tile, problem), form.BM, form.BN, form.CAUSAL)
        of_head = tl.program_id(1) * form.GROUP * head_blocks + tile.number
        add(shares, sums_desc, of_head, head_blocks, first, blocks, form)


@mimw.jit(do_not_specialize=["head_blocks"])     # new in every call of some: one binary for all
def attention_varlen_backward(q_desc, k_desc, v_desc, do_desc, lse_desc, delta_desc, sums, dk_desc, dv_desc, tiles, scale,
                              log2_scale, heads, head_blocks, zero, left, right, inner, alibi, alibi_step, FORM: tl.constexpr):
    """dK, dV (total_k, heads // GROUP, D), and dQ added to `sums`.

    args:      tiles       of keys, the program's own at program_id(0): tiles.py
               head_blocks blocks of queries of a head, in `lse_desc`, `delta_desc` and `sums`: rows.py
               zero, scale, log2_scale, left, right, inner, alibi, alibi_step, FORM   ../attention_backward's
    """
    form = FORM.form
    CONSUMERS: tl.constexpr = form.BN // 64
    DTYPE: tl.constexpr = tlx.dtype_of(q_desc)
    problem = Problem(heads, None, None, left, right, zero)
    rules = Rules(scale, log2_scale, inner, alibi, alibi_step)
    memory = memory_of_keys(form, FORM.DV, CONSUMERS, FORM.Q_STAGES, FORM.DO_STAGES, DTYPE)

    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=240, replicate=CONSUMERS):  # consumer
            me: tl.constexpr = tlx.async_task_replica_id()
            compute(memory, pipes_of(memory, me, form), dk_desc, dv_desc, tiles, rules, problem, me, form)
        with tlx.async_task(num_warps=1, num_regs=24):  # producer
            of = Operands(q_desc, k_desc, v_desc, do_desc, lse_desc, delta_desc)
            load(memory, of, tiles, problem, form)
        if form.DQ == "tma":
            with tlx.async_task(num_warps=1, num_regs=24):  # writer of dQ
                store(memory.shares, sums, tiles, head_blocks, problem, form)
