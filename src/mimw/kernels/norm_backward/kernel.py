"""Gradients of LayerNorm and RMSNorm of many long rows on Hopper: one warp keeps a ring of row parts full by bulk copies,
warpgroups take the rows in turn.

Input: x and dy [ROWS, N], mean and rstd [ROWS], and optionally w [N], and a gradient more [ROWS, N] that goes to dx as it is.
Output: dx [ROWS, N]; and of dw and db, sums over some of the rows, [clusters * CONSUMERS, N], which reduce.py adds up. For example:

    launches = arguments(x, dy, w, mean, rstd, dx, dw, db)
    for kernel, grid, args, meta in launches: kernel[grid](*args, **meta)

A row is needed twice, once for its two sums and once for dx (chunks.py). As in the forward kernel the CTAs of a cluster split each
row, and send each other these sums, for a block of 1, 2 or 4 rows at once; a slot of the ring holds the block's parts, and is free
when dx is written. Each thread adds up its columns of dw and db in registers over all its rows, in a fixed order.
"""

from collections import namedtuple

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..norm.exchange import exchange_of
from ..norm.ring import Matrix, RingForm, cluster_rows, part_of, ring_of, tiles_for
from .ahead import compute_ahead
from .chunks import Outputs, Statistics, Tiles
from .load import load
from .turns import compute

# Blocks of rows, columns, and the distances of rows of each matrix, in units of 16 bytes at least.
Units = namedtuple("Units", "blocks units x dy more dx")


@tle.struct
class GradientForm(RingForm):
    """The constants of a launch: blocks of ROWS_EACH rows, 1, 2 or 4; not CENTRED: means are not taken off. HELD: w stays in
    registers. AHEAD: the first pass over a block goes together with the second one over the block before it. EARLY: the launch
    behind this one, which waits for it, may begin as soon as there is room for it."""
    CENTRED: tl.constexpr
    ROWS_EACH: tl.constexpr
    HELD: tl.constexpr
    AHEAD: tl.constexpr
    EARLY: tl.constexpr


@mimw.jit
def norm_backward(x_ptr, dy_ptr, more_ptr, w_ptr, mean_ptr, rstd_ptr, dx_ptr, dw_ptr, db_ptr, units, FORM: tl.constexpr):
    """dx, and dw and db of the rows of each consumer.

    args:      more, w, dw, db   may be None; mean, too, where not CENTRED
               dw, db            fp32 [clusters * CONSUMERS, N]
               units             `Units`; FORM a `GradientForm`
    """
    if FORM.EARLY:
        tl.extra.cuda.gdc_launch_dependents()
    rank = tlx.cluster_cta_rank() if FORM.CLUSTER > 1 else 0
    rows, part = cluster_rows(units.blocks, FORM.CLUSTER, FORM.ROWS_EACH), part_of(rank, units.units, FORM)

    STAGED: tl.constexpr = FORM.STAGES * FORM.ROWS_EACH * FORM.CHUNKS
    tiles = Tiles(tiles_for(x_ptr, STAGED, FORM.CHUNK), tiles_for(dy_ptr, STAGED, FORM.CHUNK),
                  tiles_for(more_ptr, STAGED, FORM.CHUNK), tiles_for(w_ptr, FORM.CHUNKS, FORM.CHUNK),
                  tiles_for(mean_ptr, FORM.STAGES * FORM.ROWS_EACH, 1), tiles_for(rstd_ptr, FORM.STAGES * FORM.ROWS_EACH, 1))
    ring, w_arrived = ring_of(FORM.STAGES, FORM.CONSUMERS), tlx.alloc_barriers(1)
    exchange = exchange_of(2 * FORM.CONSUMERS, rank, FORM.CLUSTER, max(2, FORM.ROWS_EACH * (1 + FORM.CENTRED)))
    stats = Statistics(mean_ptr if FORM.CENTRED else None, rstd_ptr)

    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=112, replicate=FORM.CONSUMERS):  # consumer
            me: tl.constexpr = tlx.async_task_replica_id()
            out = Outputs(Matrix(dx_ptr, units.dx * FORM.UNIT), dw_ptr, db_ptr)
            if FORM.AHEAD:
                compute_ahead(tiles, w_arrived, out, rows, part, ring, exchange, me, FORM.HELD)
            else:
                compute(tiles, w_arrived, out, rows, part, ring, exchange, me, FORM.HELD)
        with tlx.async_task(num_warps=1, num_regs=24):  # producer
            x, dy = Matrix(x_ptr, units.x * FORM.UNIT), Matrix(dy_ptr, units.dy * FORM.UNIT)
            load(w_ptr, w_arrived, stats, (x, dy, Matrix(more_ptr, units.more * FORM.UNIT)), tiles, rows, ring, part)
