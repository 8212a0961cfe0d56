"""dK, dV and the shares of dQ of a sequence that lies on several GPUs: a program owns a block of some rank's keys and walks
over those of this rank's queries that look at it.

Input: descriptors of this rank's Q, K, V, dO, log-sum-exps and deltas, and of the gathered K and V. Output: this rank's share
of the gradients of all ranks' keys and values, in the `parts` of the ranks that have them, and sums of dQ. For example:

    kernel, grid, args, meta = launches(q, k, v, o, lse, do, dq, dk, dv, rows, sums, work, rank, programs)[1]
    ring_attention_backward[grid](*args, **meta)

Nouns, roles and all that a consumer computes are ../attention_backward's; keys and values come as in ../ring_attention: the
first programs put the rank's own into all other ranks' memory, and who needs those of another rank waits for its signal.
A program that is done gives its share to the rank whose keys they are, while others still compute; collect.py adds them up.
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx

from ..attention_backward.buffers import memory_of_keys, pipes_of
from ..attention_backward.compute import gradients
from ..attention_backward.kernel import load_rows
from ..attention_backward.nouns import Operands, Problem, Rules
from ..attention_backward.sums import add
from ..ring_attention.gather import Arrivals, KeysAndValues, Strides, arrived, enter, put
from .places import Ranks, keys_of, program_of


@mimw.jit
def place(ranks, problem, form):
    """`keys_of` this program."""
    return keys_of(program_of(form.CAUSAL)[0], ranks.me, ranks.count, problem, form.BM, form.BN, ranks.PARTS, form.CAUSAL)


@mimw.jit
def load_block(own_desc, whole_desc, is_own, tiles, batch, head, row, whole_row):
    """The program's block of keys or values, from the rank's own or from the gathered ones: two loads, of which one happens. Of two
    branches the assembler makes consumers that fetch the address of shared memory from memory for each use."""
    tlx.barrier_expect_bytes(tiles.full[0], tiles.rows.shape[0] * tiles.rows.shape[1] * tlx.size_of(tlx.dtype_of(own_desc)))
    tlx.async_descriptor_load(own_desc, tiles.rows[0], [batch, head, row, 0], tiles.full[0], pred=is_own)
    tlx.async_descriptor_load(whole_desc, tiles.rows[0], [batch, head, whole_row, 0], tiles.full[0], pred=is_own == 0)


@mimw.jit
def load(memory, of, whole, arrivals, ranks, problem, form):
    """Keys and values once, blocks of queries and of dO one after the other: the order in which the consumers need them."""
    BM: tl.constexpr = form.BM
    GROUP: tl.constexpr = form.GROUP
    _, head, batch = program_of(form.CAUSAL)
    heads, rows = problem.heads, problem.seq_q
    queries, slopes = memory.queries.writer(), memory.slopes.writer()
    source, row, _, first, blocks, _ = place(ranks, problem, form)
    is_own = source == ranks.me
    if (blocks > 0) & (is_own == 0):
        arrived(arrivals, source, batch * (heads // GROUP) + head)
    for block in range(blocks * GROUP):
        query_head, query = head * GROUP + block // blocks, (first + block % blocks) * BM
        if block == 0:
            load_block(of.k, whole.k, is_own, memory.keys, batch, head, row, source * rows + row)
        load_rows(of.q, of.lse, queries, block, batch, query_head, heads, query)
        if block == 0:
            load_block(of.v, whole.v, is_own, memory.values, batch, head, row, source * rows + row)
        load_rows(of.do, of.delta, slopes, block, batch, query_head, heads, query)


@mimw.jit
def give(tile, parts, owner, at, world):
    """A consumer's tile of dK or dV, to the memory of the rank whose keys these are, from element `at` on."""
    ROWS: tl.constexpr = tile.shape[0]
    D: tl.constexpr = tile.shape[1]
    within = tl.arange(0, ROWS)[:, None] * D + tl.arange(0, D)[None, :]
    tl.store(tlx.peer_pointer(parts, owner, world) + at + within, tlx.local_load(tile))


@mimw.jit
def compute(memory, pipes, parts, world, rules, ranks, problem, me: tl.constexpr, form):
    """dK and dV of 64 keys, to the rank that has them; nothing of keys that no query sees."""
    _, _, key, first, blocks, early = place(ranks, problem, form)
    if blocks > 0:
        _, head, batch = program_of(form.CAUSAL)
        k, v, _ = gradients(memory, pipes, batch, head, key, (first, blocks, early, blocks), rules, problem,
                            me, form)
        owner, row, _, _, _, _ = place(ranks, problem, form)
        unit = (ranks.me * tl.num_programs(2) + batch) * (problem.heads // form.GROUP) + head
        at = (unit.to(tl.int64) * problem.seq_q + row + me * 64) * form.D
        # Not known to be one round, its addresses are no numbers to keep beside the products.
        for _ in range(1 + problem.opaque_zero):
            give(v, parts.v, owner, at, world)
            give(k, parts.k, owner, at, world)


@mimw.jit
def store(shares, sums_desc, ranks, problem, form):
    """The shares of dQ, added to the sums."""
    _, head, batch = program_of(form.CAUSAL)
    _, _, _, first, blocks, _ = place(ranks, problem, form)
    of_head = (batch * problem.heads + head * form.GROUP) * (problem.seq_q // form.BM)
    add(shares, sums_desc, of_head, problem.seq_q // form.BM, first, blocks, form)


@mimw.jit(do_not_specialize=["rank", "size"])     # one binary for all ranks
def ring_attention_backward(q_desc, k_desc, v_desc, whole_k_desc, whole_v_desc, do_desc, lse_desc, delta_desc, sums, parts_k,
                            parts_v, k, v, whole_k, whole_v, flags, state, world, rank, size, scale, log2_scale, heads, rows,
                            zero, piece_shift, k_batch, k_head, k_row, v_batch, v_head, v_row, PARTS: tl.constexpr,
                            PUTTERS: tl.constexpr, FORM: tl.constexpr):
    """This rank's shares of dK and dV, to each rank those of its rows, and dQ added to `sums`.

    args:      parts_k, parts_v     pointers to this rank's symmetric arrays (ranks, batches, heads // GROUP, rows, D): what that
                        rank's queries give to this rank's keys and values
               rows     of this rank, a multiple of BM and BN, and if it has two chunks twice so
               scale, log2_scale, zero, FORM       ../attention_backward's
               rank, size   what `world` says, too: of what a kernel loads the compiler does not know that all threads have
                        the same, and keeps loops that it bounds out of uniform registers
               others   ../ring_attention's
    """
    form = FORM.form
    CONSUMERS: tl.constexpr = form.BN // 64
    DTYPE: tl.constexpr = tlx.dtype_of(q_desc)
    problem = Problem(heads, rows, rows, None, None, zero)
    rules = Rules(scale, log2_scale, None, None, None)
    ranks = Ranks(rank, size, PARTS)
    memory = memory_of_keys(form, FORM.DV, CONSUMERS, FORM.Q_STAGES, FORM.DO_STAGES, DTYPE)
    base = enter(state, PUTTERS)
    putter = tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)
    if (putter < PUTTERS) & (tl.program_id(2) == 0):
        steps = KeysAndValues(Strides(k_batch, k_head, k_row), Strides(v_batch, v_head, v_row))
        put(KeysAndValues(k, v), KeysAndValues(whole_k, whole_v), flags, piece_shift, steps, tl.num_programs(2),
            heads // form.GROUP, rows, world, putter, form.D, PUTTERS)

    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=240, replicate=CONSUMERS):  # consumer
            me: tl.constexpr = tlx.async_task_replica_id()
            parts = KeysAndValues(parts_k, parts_v)
            compute(memory, pipes_of(memory, me, form), parts, world, rules, ranks, problem, me, form)
        with tlx.async_task(num_warps=1, num_regs=24):  # producer
            of = Operands(q_desc, k_desc, v_desc, do_desc, lse_desc, delta_desc)
            load(memory, of, KeysAndValues(whole_k_desc, whole_v_desc),
                 Arrivals(flags, piece_shift, base, world, PUTTERS), ranks, problem, form)
        with tlx.async_task(num_warps=1, num_regs=24):  # writer of dQ
            store(memory.shares, sums, ranks, problem, form)
