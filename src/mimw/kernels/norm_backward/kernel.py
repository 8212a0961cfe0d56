"""Gradients of LayerNorm and RMSNorm of many long rows on Hopper: one warp keeps a ring of row parts full by bulk copies,
warpgroups take the rows in turn.

Input: x and dy [ROWS, N], mean and rstd [ROWS], and optionally w [N], and a gradient more [ROWS, N] that goes to dx as it is.
Output: dx [ROWS, N]; and of dw and db, sums over some of the rows, [clusters * CONSUMERS, N], which reduce.py adds up. For example:

    launches = arguments(x, dy, w, mean, rstd, dx, dw, db)
    for kernel, grid, args, meta in launches: kernel[grid](*args, **meta)

A row is needed twice, once for its two sums and once for dx (chunks.py). As in the forward kernel the CTAs of a cluster split each
row, and tell each other these sums, for a block of 1, 2 or 4 rows at once; a slot of the ring holds the block's parts, and is free
when dx is written. Each thread adds up its columns of dw and db in registers over all its rows, in a fixed order.
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx

from ..norm.ring import bytes_of, chunk_at, load_rows, own_columns, places_to_tell, start_part, taken_slot, tiles_for
from ..norm.statistics import all_summed, heard_sums, tell_sums
from .ahead import compute_ahead
from .chunks import chunk_of_w, first_pass, held_w, of_rows, read, second_pass, slopes_and_offsets, write_sums, zeros


@mimw.jit
def load(w_ptr, weights, pointers, row_steps, tiles, full, free, BLOCKS, units, rank, cluster, clusters, UNIT: tl.constexpr,
         CHUNK: tl.constexpr, CHUNKS: tl.constexpr, STAGES: tl.constexpr, EVEN: tl.constexpr, ROWS_EACH: tl.constexpr):
    """This CTA's parts of its blocks of rows, in order; w ahead of them."""
    if w_ptr is not None:
        tlx.barrier_expect_bytes(weights[0], CHUNK * CHUNKS * bytes_of((w_ptr, )))
        start_part(w_ptr, tiles[3], 0, weights[0], rank, units, UNIT, CHUNK, CHUNKS, EVEN)
    load_rows(pointers, row_steps, tiles, full, free, BLOCKS, units, rank, cluster, clusters, UNIT, CHUNK, CHUNKS, STAGES, EVEN,
              ROWS_EACH)


@mimw.jit
def compute(tiles, full, free, weights, parts, arrived, mean_ptr, rstd_ptr, dx_ptr, dw_ptr, db_ptr, BLOCKS, units, dx_row, rank,
            cluster, clusters, me: tl.constexpr, UNIT: tl.constexpr, CHUNK: tl.constexpr, CHUNKS: tl.constexpr,
            CLUSTER: tl.constexpr, STAGES: tl.constexpr, CONSUMERS: tl.constexpr, CENTRED: tl.constexpr, EVEN: tl.constexpr,
            ROWS_EACH: tl.constexpr, HELD: tl.constexpr):
    """Every CONSUMERS-th block of ROWS_EACH rows, from block number `me` of this cluster's on; then the sums over these rows."""
    N = CLUSTER * CHUNK * CHUNKS if EVEN else units * UNIT
    inside = own_columns(rank, units, UNIT, CHUNK, CHUNKS, EVEN)
    dws, dbs = zeros(dw_ptr, CHUNK, CHUNKS), zeros(db_ptr, CHUNK, CHUNKS)
    ws = held_w(tiles, weights, CHUNKS, HELD)
    first, stride = cluster + me * clusters, CONSUMERS * clusters
    # The means and rstds of rows are asked for one block ahead: they are on the way to everything else.
    next_rstds, next_means = of_rows(rstd_ptr, first, BLOCKS, ROWS_EACH), ()
    if CENTRED:
        next_means = of_rows(mean_ptr, first, BLOCKS, ROWS_EACH)
    turn = 0
    for block in range(first, BLOCKS, stride):
        means, rstds = next_means, next_rstds
        next_rstds = of_rows(rstd_ptr, block + stride, BLOCKS, ROWS_EACH)
        if CENTRED:
            next_means = of_rows(mean_ptr, block + stride, BLOCKS, ROWS_EACH)
        slot = taken_slot(full, free, turn, me, STAGES, CONSUMERS)
        g_sums, gh_sums = (), ()
        for i in tl.static_range(ROWS_EACH):
            mean = means[i] if CENTRED else 0.0
            g_total, gh_total, new_dws, new_dbs = tl.zeros((CHUNK, ), tl.float32), tl.zeros((CHUNK, ), tl.float32), (), ()
            for chunk in tl.static_range(CHUNKS):
                x, dy, g = read(tiles, (slot * ROWS_EACH + i) * CHUNKS + chunk, chunk_of_w(tiles, ws, chunk),
                                None if inside is None else inside[chunk])
                g_total, gh_total, dw, db = first_pass(x, dy, g, mean, rstds[i], g_total, gh_total, dws[chunk:chunk + 1],
                                                       dbs[chunk:chunk + 1], CENTRED)
                new_dws, new_dbs = new_dws + dw, new_dbs + db
            dws, dbs, g_sums, gh_sums = new_dws, new_dbs, g_sums + (g_total, ), gh_sums + (gh_total, )
        sums = all_summed(gh_sums + g_sums if CENTRED else gh_sums)
        if CLUSTER > 1:
            place = me * 2 + turn % 2
            tell_sums(sums, parts[place], arrived[place], rank, CLUSTER)
            sums = heard_sums(len(sums), parts[place], arrived[place], turn // 2 % 2)
        slopes, offsets = slopes_and_offsets(sums, means, rstds, N, ROWS_EACH, CENTRED)
        for i in tl.static_range(ROWS_EACH):
            dx_at = dx_ptr + (block * ROWS_EACH + i).to(tl.int64) * dx_row
            for chunk in tl.static_range(CHUNKS):
                at = (slot * ROWS_EACH + i) * CHUNKS + chunk
                x, dy, g = read(tiles, at, chunk_of_w(tiles, ws, chunk), None)
                columns = chunk_at(rank, chunk, units, UNIT, CHUNK, CHUNKS, EVEN) + tl.arange(0, CHUNK)
                second_pass(x, g, rstds[i], slopes[i], offsets[i], tiles, at, dx_at + columns,
                            None if inside is None else inside[chunk])
        tlx.barrier_arrive(free[slot])
        turn += 1
    write_sums(dws, dbs, dw_ptr, db_ptr, cluster * CONSUMERS + me, N, inside, rank, units, UNIT, CHUNK, CHUNKS, EVEN)


@mimw.jit
def norm_backward(x_ptr, dy_ptr, more_ptr, w_ptr, mean_ptr, rstd_ptr, dx_ptr, dw_ptr, db_ptr, BLOCKS, units, x_units, dy_units,
                  more_units, dx_units, UNIT: tl.constexpr, CHUNK: tl.constexpr, CHUNKS: tl.constexpr, CLUSTER: tl.constexpr,
                  STAGES: tl.constexpr, CONSUMERS: tl.constexpr, CENTRED: tl.constexpr, EVEN: tl.constexpr, ROWS_EACH: tl.constexpr,
                  HELD: tl.constexpr, AHEAD: tl.constexpr, EARLY: tl.constexpr = False):
    """dx, and dw and db of the rows of each consumer.

    args:      more, w, dw, db   may be None; mean, too, where not CENTRED
               dw, db            fp32 [clusters * CONSUMERS, N]
               BLOCKS            of ROWS_EACH rows, which is 1, 2 or 4
               units, x_units, ...  columns, and the distances of rows, in units of UNIT elements, all of 16 bytes at least
               EVEN              all parts are whole
               HELD              w stays in registers
               AHEAD             the first pass over a block goes together with the second one over the block before it
               EARLY             the launch behind this one, which waits for it, may begin as soon as there is room for it
    """
    if EARLY:
        tl.extra.cuda.gdc_launch_dependents()
    rank = tlx.cluster_cta_rank() if CLUSTER > 1 else 0
    cluster, clusters = tl.program_id(0) // CLUSTER, tl.num_programs(0) // CLUSTER

    TILES: tl.constexpr = STAGES * ROWS_EACH * CHUNKS
    tiles = (tiles_for(x_ptr, TILES, CHUNK), tiles_for(dy_ptr, TILES, CHUNK), tiles_for(more_ptr, TILES, CHUNK),
             tiles_for(w_ptr, CHUNKS, CHUNK))
    full, free, weights = tlx.alloc_barriers(STAGES), tlx.alloc_barriers(STAGES), tlx.alloc_barriers(1)
    parts, arrived = places_to_tell(max(2, ROWS_EACH * (1 + CENTRED)), CONSUMERS, CLUSTER)

    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=112, replicate=CONSUMERS):  # consumer
            me: tl.constexpr = tlx.async_task_replica_id()
            if AHEAD:
                compute_ahead(tiles, full, free, weights, parts, arrived, mean_ptr, rstd_ptr, dx_ptr, dw_ptr, db_ptr, BLOCKS, units,
                              dx_units * UNIT, rank, cluster, clusters, me, UNIT, CHUNK, CHUNKS, CLUSTER, STAGES, CONSUMERS,
                              CENTRED, EVEN, ROWS_EACH, HELD)
            else:
                compute(tiles, full, free, weights, parts, arrived, mean_ptr, rstd_ptr, dx_ptr, dw_ptr, db_ptr, BLOCKS, units,
                        dx_units * UNIT, rank, cluster, clusters, me, UNIT, CHUNK, CHUNKS, CLUSTER, STAGES, CONSUMERS, CENTRED,
                        EVEN, ROWS_EACH, HELD)
        with tlx.async_task(num_warps=1, num_regs=24):  # producer
            load(w_ptr, weights, (x_ptr, dy_ptr, more_ptr), (x_units * UNIT, dy_units * UNIT, more_units * UNIT), tiles, full, free,
                 BLOCKS, units, rank, cluster, clusters, UNIT, CHUNK, CHUNKS, STAGES, EVEN, ROWS_EACH)
