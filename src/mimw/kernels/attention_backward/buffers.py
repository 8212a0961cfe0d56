"""Shared memory of the gradients' kernels: tiles that are loaded once, rings of tiles with numbers of rows, dS^T, shares of dQ.

Input: extents and a type. Output: tiles with their barriers (nouns.py), and pipes. For example:

    memory = memory_of_keys(form, D, CONSUMERS, Q_STAGES, DO_STAGES, DTYPE)     of a program that owns keys
    pipes = pipes_of(memory, me, form)                                          a consumer's ends of its pipes
"""

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..consumers import consumer, consumers
from .nouns import Memory, Pipes, Streams, Tiles
from .sums import BLOCK_COLUMNS

SLOTS = tl.constexpr(3)   # of dS^T: one is written, one read; of the third a slower consumer may still read the block before


@mimw.jit
def tile_once(ROWS: tl.constexpr, D: tl.constexpr, DTYPE: tl.constexpr):
    """A tile that is loaded once."""
    return Tiles(tlx.local_alloc((ROWS, D), DTYPE, 1), tlx.alloc_barriers(1))


@mimw.jit
def rows_pipe(NAME: tl.constexpr, STAGES: tl.constexpr, ROWS: tl.constexpr, D: tl.constexpr, DTYPE: tl.constexpr,
              CONSUMERS: tl.constexpr):
    """A ring of tiles that all consumers read."""
    return tle.pipe(capacity=STAGES, readers=consumers(CONSUMERS), name=NAME, rows=tle.gpu.alloc([STAGES, ROWS, D], DTYPE))


@mimw.jit
def numbered_pipe(NAME: tl.constexpr, STAGES: tl.constexpr, ROWS: tl.constexpr, D: tl.constexpr, DTYPE: tl.constexpr,
                  CONSUMERS: tl.constexpr):
    """A ring of tiles that all consumers read, with a number for each row."""
    return tle.pipe(capacity=STAGES, readers=consumers(CONSUMERS), name=NAME, rows=tle.gpu.alloc([STAGES, ROWS, D], DTYPE),
                    numbers=tle.gpu.alloc([STAGES, ROWS], tl.float32))


@mimw.jit
def exchange(form, DTYPE: tl.constexpr):
    """The slots of dS^T, of all consumers' keys, or None where dQ is not made."""
    if form.DQ == "tma":
        return Tiles(tlx.local_alloc((form.BN, form.BM), DTYPE, SLOTS), tlx.alloc_barriers(SLOTS, form.BN // 64))
    else:
        return None


@mimw.jit
def share_pipes(form):
    """A pipe of shares of dQ for each consumer, none where dQ is not made."""
    CONSUMERS: tl.constexpr = form.BN // 64
    COLUMNS: tl.constexpr = form.D if form.BM == form.BN else form.D // CONSUMERS
    shares = ()
    for c in tl.static_range(CONSUMERS if form.DQ == "tma" else 0):
        shares = shares + (tle.pipe(capacity=1, name="shares",
                                    tile=tle.gpu.alloc([1, 64 * COLUMNS // BLOCK_COLUMNS, BLOCK_COLUMNS], tl.float32)), )
    return shares


@mimw.jit
def memory_of_keys(form, DV: tl.constexpr, CONSUMERS: tl.constexpr, Q_STAGES: tl.constexpr, DO_STAGES: tl.constexpr,
                   DTYPE: tl.constexpr):
    """The shared memory of a program that owns keys; values have tiles of DV columns."""
    keys, values = tile_once(form.BN, form.D, DTYPE), tile_once(form.BN, DV, DTYPE)
    queries = numbered_pipe("queries", Q_STAGES, form.BM, form.D, DTYPE, CONSUMERS)
    slopes = numbered_pipe("slopes", DO_STAGES, form.BM, DV, DTYPE, CONSUMERS)
    return Memory(keys, values, queries, slopes, exchange(form, DTYPE), share_pipes(form))


@mimw.jit
def pipes_of(memory, me: tl.constexpr, form):
    """The ends of the pipes of consumer `me` of a program that owns keys."""
    name: tl.constexpr = consumer(me)
    return Pipes(memory.queries.reader(name), memory.slopes.reader(name), memory.shares[me].writer() if form.DQ == "tma" else None)


@mimw.jit
def memory_of_queries(form, DV: tl.constexpr, K_STAGES: tl.constexpr, V_STAGES: tl.constexpr, DTYPE: tl.constexpr):
    """The shared memory of a program that owns queries; values have tiles of DV columns."""
    CONSUMERS: tl.constexpr = form.BM // 64
    queries, slopes = tile_once(form.BM, form.D, DTYPE), tile_once(form.BM, DV, DTYPE)
    return Streams(queries, slopes, rows_pipe("keys", K_STAGES, form.BN, form.D, DTYPE, CONSUMERS),
                   rows_pipe("values", V_STAGES, form.BN, DV, DTYPE, CONSUMERS))


@mimw.jit
def read(streams, me: tl.constexpr):
    """The streams with the ends of consumer `me`."""
    name: tl.constexpr = consumer(me)
    return Streams(streams.queries, streams.slopes, streams.keys.reader(name), streams.values.reader(name))


@mimw.jit
def written(streams):
    """The streams with the ends of who loads them."""
    return Streams(streams.queries, streams.slopes, streams.keys.writer(), streams.values.writer())
