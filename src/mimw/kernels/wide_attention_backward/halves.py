"""Shared memory of a program that owns 128 keys of heads of up to 192: K and Q in halves of 96 columns.

Input: extents and a type, and descriptors. Output: tiles and pipes, and the role that fills them. For example:

    memory = memory_of_halves(FORM, DTYPE)
    load(memory, Operands(q_desc, k_desc, v_desc, do_desc, lse_desc, delta_desc), problem, form)

A consumer makes one half of the columns of dQ, which wants that half of K as a tile of its own: of a tile of 192 columns, which
lies in stripes of 64, a product cannot have one and a half. A half of K lies in one tile for each consumer's keys. In bytes: K
48 K, V 32 K, two blocks of 64 queries 48 K and of dO 32 K, two slots of dS^T 32 K, one share of dQ 24 K, numbers and barriers 1 K.
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..attention_backward.buffers import numbered_pipe, tile_once
from ..attention_backward.kernel import load_once, load_rows
from ..attention_backward.nouns import Tiles
from ..attention_backward.order import program_of
from ..attention_backward.schedule import span
from ..attention_backward.sums import BLOCK_COLUMNS
from ..consumers import consumers

HALF = tl.constexpr(96)
CONSUMERS = tl.constexpr(2)
SLOTS = tl.constexpr(2)       # of dS^T: one is written, one read
PARTS = tl.constexpr(3)       # of a share of dQ, 32 columns each


@tle.struct
class Place:
    """One place for shares of dQ, in parts, which the consumers fill in turn (shares.py): for each of them a barrier that says that
    its share is there, and for each part one that says that it has been read."""

    parts: Any
    full: Any
    read: Any


@tle.struct
class Halves:
    """Shared memory: keys, number 2 c + h being half h of those of consumer c, values, pipes of queries and slopes (dO) with a
    number for each row, dS^T, and the place for shares of dQ."""

    keys: Tiles
    values: Tiles
    queries: Any
    slopes: Any
    ds: Tiles
    shares: Place


@mimw.jit
def memory_of_halves(FORM: tl.constexpr, DTYPE: tl.constexpr):
    """The shared memory of a program."""
    BM: tl.constexpr = FORM.form.BM
    STAGES: tl.constexpr = FORM.Q_STAGES
    keys = Tiles(tlx.local_alloc((64, HALF), DTYPE, 2 * CONSUMERS), tlx.alloc_barriers(1))
    queries = tle.pipe(capacity=STAGES, readers=consumers(CONSUMERS), name="queries", left=tle.gpu.alloc([STAGES, BM, HALF], DTYPE),
                       right=tle.gpu.alloc([STAGES, BM, HALF], DTYPE), numbers=tle.gpu.alloc([STAGES, BM], tl.float32))
    slopes = numbered_pipe("slopes", FORM.DO_STAGES, BM, FORM.DV, DTYPE, CONSUMERS)
    ds = Tiles(tlx.local_alloc((64 * CONSUMERS, BM), DTYPE, SLOTS), tlx.alloc_barriers(SLOTS, CONSUMERS))
    parts = tlx.local_alloc((BM, BLOCK_COLUMNS), tl.float32, PARTS)
    return Halves(keys, tile_once(64 * CONSUMERS, FORM.DV, DTYPE), queries, slopes, ds,
                  Place(parts, tlx.alloc_barriers(CONSUMERS), tlx.alloc_barriers(CONSUMERS * PARTS)))


@mimw.jit
def blocks_of(key, problem, form):
    """The blocks of queries of the program's keys, as `span` tells them; of no queries one block, all beyond the end."""
    first, blocks, early, late = span(key, problem, form.BM, form.BN, form.CAUSAL)
    blocks = tl.maximum(blocks, 1)
    return first, blocks, early, blocks if problem.left is None else late


@mimw.jit
def load_keys(desc, keys, batch, head, key):
    """The program's keys."""
    tlx.barrier_expect_bytes(keys.full[0], CONSUMERS * 64 * 2 * HALF * tlx.size_of(tlx.dtype_of(desc)))
    for part in tl.static_range(2 * CONSUMERS):
        tlx.async_descriptor_load(desc, keys.rows[part], [batch, head, key + part // 2 * 64, part % 2 * HALF], keys.full[0])


@mimw.jit
def load_queries(of, pipe, block, batch, head, heads, query):
    """Block number `block`: BM rows of a query head from `query` on, in halves, and a number for each."""
    slot = pipe.acquire(block)
    tle.gpu.copy(of.q, tlx.local_reshape(slot.left, of.q.block_shape), of.q.block_shape, [batch, head, query, 0])
    tle.gpu.copy(of.q, tlx.local_reshape(slot.right, of.q.block_shape), of.q.block_shape, [batch, head, query, HALF])
    tle.gpu.copy(of.lse, tlx.local_reshape(slot.numbers, of.lse.block_shape), of.lse.block_shape, [batch * heads + head, query])
    pipe.commit(block)


@mimw.jit
def load(memory, of, problem, form):
    """The role: keys and values once, blocks of queries and of dO in the order in which the consumers need them."""
    GROUP: tl.constexpr = form.GROUP
    heads, queries, slopes = problem.heads, memory.queries.writer(), memory.slopes.writer()
    number, head, batch = program_of(form.BANDS)
    key = number * form.BN
    first, blocks, _, _ = blocks_of(key, problem, form)
    for block in range(blocks * GROUP):
        query_head, query = head * GROUP + block // blocks, (first + block % blocks) * form.BM
        if block == 0:
            load_keys(of.k, memory.keys, batch, head, key)
        load_queries(of, queries, block, batch, query_head, heads, query)
        if block == 0:
            load_once(of.v, memory.values, batch, head, key)
        load_rows(of.do, of.delta, slopes, block, batch, query_head, heads, query)
