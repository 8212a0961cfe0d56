"""Shared memory of the gradients' kernels: tiles that are loaded once, rings of tiles with a number for each row, dS^T, shares of dQ.

Input: extents and a type. Output: tiles with their barriers (nouns.py), and pipes. For example:

    keys = tile_once(BN, D, DTYPE)                                              one tile, and a barrier for its load
    queries = numbered_pipe("queries", Q_STAGES, BM, D, DTYPE, CONSUMERS)       rows, and their log-sum-exps or deltas
"""

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..consumers import consumers
from .nouns import Tiles
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
    if form.DQ == "not":
        return None
    else:
        return Tiles(tlx.local_alloc((form.BN, form.BM), DTYPE, SLOTS), tlx.alloc_barriers(SLOTS, form.BN // 64))


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
