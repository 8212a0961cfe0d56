"""Gradients of LayerNorm and RMSNorm of many long rows on Hopper: one warp keeps a ring of row parts full by bulk copies,
warpgroups take the rows in turn.

Input: x and dy [ROWS, N], mean and rstd [ROWS], and optionally w [N], and a gradient more [ROWS, N] that goes to dx as it is.
Output: dx [ROWS, N]; and of dw and db, sums over some of the rows, [clusters * CONSUMERS, N], which reduce.py adds up. For example:

    launches = arguments(x, dy, w, mean, rstd, dx, dw, db)
    for kernel, grid, args, meta in launches: kernel[grid](*args, **meta)

With g = dy w and h = (x - mean) rstd: dx = rstd (g - mean of g - h (mean of g h)), dw = sum of dy h over the rows, db = sum of dy.
So a row is needed twice, once for its two means and once for dx. As in the forward kernel the CTAs of a cluster split each row, and
tell each other two numbers; a slot of the ring is free when dx is written. Each thread adds up its columns of dw and db in
registers over all its rows, in a fixed order.
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx

from ..norm.kernel import bytes_of, chunk_at, own_columns, start_part, tiles_for
from ..norm.statistics import send_statistics


@mimw.jit
def load(x_ptr, dy_ptr, more_ptr, w_ptr, x_tiles, dy_tiles, more_tiles, w_tiles, full, free, weights, ROWS, units, x_row, dy_row,
         more_row, rank, cluster, clusters, UNIT: tl.constexpr, CHUNK: tl.constexpr, CHUNKS: tl.constexpr, STAGES: tl.constexpr,
         EVEN: tl.constexpr):
    """This CTA's parts of its rows, in order; w ahead of them."""
    if w_ptr is not None:
        tlx.barrier_expect_bytes(weights[0], CHUNK * CHUNKS * bytes_of(w_ptr))
        start_part(w_ptr, w_tiles, 0, weights[0], rank, units, UNIT, CHUNK, CHUNKS, EVEN)
    step = 0
    for row in range(cluster, ROWS, clusters):
        slot = step % STAGES
        wide = row.to(tl.int64)
        tlx.barrier_wait(free[slot], (step // STAGES & 1) ^ 1)
        tlx.barrier_expect_bytes(full[slot], CHUNK * CHUNKS * bytes_of(x_ptr, dy_ptr, more_ptr))
        start_part(x_ptr + wide * x_row, x_tiles, slot * CHUNKS, full[slot], rank, units, UNIT, CHUNK, CHUNKS, EVEN)
        start_part(dy_ptr + wide * dy_row, dy_tiles, slot * CHUNKS, full[slot], rank, units, UNIT, CHUNK, CHUNKS, EVEN)
        if more_ptr is not None:
            start_part(more_ptr + wide * more_row, more_tiles, slot * CHUNKS, full[slot], rank, units, UNIT, CHUNK, CHUNKS, EVEN)
        step += 1


@mimw.jit
def normalised(x_tiles, dy_tiles, w_tiles, at, chunk: tl.constexpr, inside, mean, rstd, CENTRED: tl.constexpr):
    """(h, dy, g) of one chunk; g is 0 where `inside` is false."""
    x, dy = tlx.local_load(x_tiles[at + chunk]).to(tl.float32), tlx.local_load(dy_tiles[at + chunk]).to(tl.float32)
    h = x * rstd - mean * rstd if CENTRED else x * rstd
    g = dy
    if w_tiles is not None:
        g = dy * tlx.local_load(w_tiles[chunk]).to(tl.float32)
    if inside is not None:
        g = tl.where(inside[chunk], g, 0.0)
    return h, dy, g


@mimw.jit
def both_added(g, gh, other_g, other_gh):
    """One step of two sums."""
    return g + other_g, gh + other_gh


@mimw.jit
def means_of_row(g_sum, gh_sum, parts, arrived, place, phase, rank, N, CLUSTER: tl.constexpr):
    """The sums of all CTAs, over N."""
    if CLUSTER > 1:
        send_statistics(g_sum, gh_sum, parts[place], arrived[place], rank, CLUSTER)
        tlx.barrier_wait(arrived[place], phase)
        g_parts, gh_parts = tlx.local_load(parts[place]).split()
        g_sum, gh_sum = tl.sum(g_parts), tl.sum(gh_parts)
    return g_sum / N, gh_sum / N


@mimw.jit
def zeros(CHUNK: tl.constexpr, CHUNKS: tl.constexpr):
    """A sum for each chunk."""
    sums = ()
    for chunk in tl.static_range(CHUNKS):
        sums = sums + (tl.zeros((CHUNK, ), tl.float32), )
    return sums


@mimw.jit
def compute(x_tiles, dy_tiles, more_tiles, w_tiles, full, free, weights, parts, arrived, mean_ptr, rstd_ptr, dx_ptr, dw_ptr, db_ptr,
            ROWS, units, dx_row, rank, cluster, clusters, me: tl.constexpr, UNIT: tl.constexpr, CHUNK: tl.constexpr,
            CHUNKS: tl.constexpr, CLUSTER: tl.constexpr, STAGES: tl.constexpr, CONSUMERS: tl.constexpr, CENTRED: tl.constexpr,
            EVEN: tl.constexpr):
    """Every CONSUMERS-th row, from row number `me` of this cluster's on; then the sums over these rows."""
    N = CLUSTER * CHUNK * CHUNKS if EVEN else units * UNIT
    inside = own_columns(rank, units, UNIT, CHUNK, CHUNKS, EVEN)
    dws = zeros(CHUNK, CHUNKS) if dw_ptr is not None else ()
    dbs = zeros(CHUNK, CHUNKS) if db_ptr is not None else ()
    if w_tiles is not None:
        tlx.barrier_wait(weights[0], 0)
    first, stride = cluster + me * clusters, CONSUMERS * clusters
    # A row's mean and rstd are asked for one row ahead: they are on the way to everything else.
    next_rstd = tl.load(rstd_ptr + first, mask=first < ROWS, other=0.0)
    next_mean = tl.load(mean_ptr + first, mask=first < ROWS, other=0.0) if CENTRED else 0.0
    turn = 0
    for row in range(first, ROWS, stride):
        step = turn * CONSUMERS + me
        slot = step % STAGES
        mean, rstd = next_mean, next_rstd
        next_rstd = tl.load(rstd_ptr + row + stride, mask=row + stride < ROWS, other=0.0)
        if CENTRED:
            next_mean = tl.load(mean_ptr + row + stride, mask=row + stride < ROWS, other=0.0)
        if STAGES % CONSUMERS:
            tlx.barrier_wait(free[slot], (step // STAGES & 1) ^ 1)  # as in the forward kernel
        tlx.barrier_wait(full[slot], step // STAGES & 1)
        g_sums, gh_sums, new_dws, new_dbs = tl.zeros((CHUNK, ), tl.float32), tl.zeros((CHUNK, ), tl.float32), (), ()
        for chunk in tl.static_range(CHUNKS):
            h, dy, g = normalised(x_tiles, dy_tiles, w_tiles, slot * CHUNKS, chunk, inside, mean, rstd, CENTRED)
            g_sums += g
            gh_sums += g * h
            if dw_ptr is not None:
                new_dws = new_dws + (dws[chunk] + dy * h, )
            if db_ptr is not None:
                new_dbs = new_dbs + (dbs[chunk] + dy, )
        dws, dbs = new_dws, new_dbs
        if CENTRED:
            g_sum, gh_sum = tl.reduce((g_sums, gh_sums), 0, both_added)  # both by one pass through shared memory
        else:
            g_sum, gh_sum = 0.0, tl.sum(gh_sums)
        g_mean, gh_mean = means_of_row(g_sum, gh_sum, parts, arrived, me * 2 + turn % 2, turn // 2 % 2, rank, N, CLUSTER)
        dx_at = dx_ptr + row.to(tl.int64) * dx_row
        for chunk in tl.static_range(CHUNKS):
            # (g - g_mean - h gh_mean) rstd, two fused multiplies and adds a number.
            h, dy, g = normalised(x_tiles, dy_tiles, w_tiles, slot * CHUNKS, chunk, None, mean, rstd, CENTRED)
            dx = g * rstd - (h * (gh_mean * rstd) + g_mean * rstd)
            if more_tiles is not None:
                dx += tlx.local_load(more_tiles[slot * CHUNKS + chunk]).to(tl.float32)
            columns = chunk_at(rank, chunk, units, UNIT, CHUNK, CHUNKS, EVEN) + tl.arange(0, CHUNK)
            tl.store(dx_at + columns, dx.to(tlx.dtype_of(dx_ptr)), mask=None if inside is None else inside[chunk])
        tlx.barrier_arrive(free[slot])
        turn += 1
    at = (cluster * CONSUMERS + me).to(tl.int64) * N
    for chunk in tl.static_range(CHUNKS):
        columns = at + chunk_at(rank, chunk, units, UNIT, CHUNK, CHUNKS, EVEN) + tl.arange(0, CHUNK)
        own = None if inside is None else inside[chunk]
        if dw_ptr is not None:
            tl.store(dw_ptr + columns, dws[chunk], mask=own)
        if db_ptr is not None:
            tl.store(db_ptr + columns, dbs[chunk], mask=own)


@mimw.jit
def norm_backward(x_ptr, dy_ptr, more_ptr, w_ptr, mean_ptr, rstd_ptr, dx_ptr, dw_ptr, db_ptr, ROWS, units, x_units, dy_units,
                  more_units, dx_units, UNIT: tl.constexpr, CHUNK: tl.constexpr, CHUNKS: tl.constexpr, CLUSTER: tl.constexpr,
                  STAGES: tl.constexpr, CONSUMERS: tl.constexpr, CENTRED: tl.constexpr, EVEN: tl.constexpr):
    """dx, and dw and db of the rows of each consumer.

    args:      more, w, dw, db   may be None; mean, too, where not CENTRED
               dw, db            fp32 [clusters * CONSUMERS, N]
               units, x_units, ...  columns, and the distances of rows, in units of UNIT elements, all of 16 bytes at least
               EVEN              all parts are whole
    """
    rank = tlx.cluster_cta_rank() if CLUSTER > 1 else 0
    cluster, clusters = tl.program_id(0) // CLUSTER, tl.num_programs(0) // CLUSTER

    x_tiles, dy_tiles = tiles_for(x_ptr, STAGES * CHUNKS, CHUNK), tiles_for(dy_ptr, STAGES * CHUNKS, CHUNK)
    more_tiles, w_tiles = tiles_for(more_ptr, STAGES * CHUNKS, CHUNK), tiles_for(w_ptr, CHUNKS, CHUNK)
    full, free, weights = tlx.alloc_barriers(STAGES), tlx.alloc_barriers(STAGES), tlx.alloc_barriers(1)
    parts, arrived = None, None
    if CLUSTER > 1:
        parts = tlx.local_alloc((CLUSTER, 2), tl.float32, 2 * CONSUMERS)
        arrived = tlx.alloc_barriers(2 * CONSUMERS)

    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=112, replicate=CONSUMERS):  # consumer
            me: tl.constexpr = tlx.async_task_replica_id()
            compute(x_tiles, dy_tiles, more_tiles, w_tiles, full, free, weights, parts, arrived, mean_ptr, rstd_ptr, dx_ptr, dw_ptr,
                    db_ptr, ROWS, units, dx_units * UNIT, rank, cluster, clusters, me, UNIT, CHUNK, CHUNKS, CLUSTER, STAGES,
                    CONSUMERS, CENTRED, EVEN)
        with tlx.async_task(num_warps=1, num_regs=24):  # producer
            load(x_ptr, dy_ptr, more_ptr, w_ptr, x_tiles, dy_tiles, more_tiles, w_tiles, full, free, weights, ROWS, units,
                 x_units * UNIT, dy_units * UNIT, more_units * UNIT, rank, cluster, clusters, UNIT, CHUNK, CHUNKS, STAGES, EVEN)
