"""Gradients of a norm with the exchange between CTAs out of the way: the first pass over a block of rows goes together with the
second one over the consumer's block before it.

Input and output of `compute_ahead` are those of `compute` in kernel.py, whose place it takes:

    sums = both_passes(block n, second pass of block n - 1)     sums of block n; w is unpacked once for both
    tell_sums(sums, ...)                                        to the other CTAs of the cluster
    sums = heard_sums(...)                                      a block later: they have come meanwhile
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx

from ..norm.ring import chunk_at, own_columns, taken_slot
from ..norm.statistics import all_summed, heard_sums, tell_sums
from .chunks import chunk_of_w, first_pass, held_w, of_rows, read, second_pass, slopes_and_offsets, write_sums, zeros


@mimw.jit
def both_passes(tiles, ws, slot, before, means, rstds, last_means, last_rstds, sums, dx_at, dx_row, dws, dbs, inside, N, rank,
                units, UNIT: tl.constexpr, CHUNK: tl.constexpr, CHUNKS: tl.constexpr, CENTRED: tl.constexpr, EVEN: tl.constexpr,
                ROWS_EACH: tl.constexpr, FIRST: tl.constexpr, SECOND: tl.constexpr):
    """(sums, dws, dbs) of the first pass over the rows in slot number `slot`; chunk by chunk with it the second one over those in
    slot `before`. Either may be left out."""
    gs, ghs, new_dws, new_dbs = (), (), (), ()
    for i in tl.static_range(ROWS_EACH):
        gs, ghs = gs + (tl.zeros((CHUNK, ), tl.float32), ), ghs + (tl.zeros((CHUNK, ), tl.float32), )
    if SECOND:
        slopes, offsets = slopes_and_offsets(sums, last_means, last_rstds, N, ROWS_EACH, CENTRED)
    for chunk in tl.static_range(CHUNKS):
        wide_w = chunk_of_w(tiles, ws, chunk)
        own = None if inside is None else inside[chunk]
        if SECOND:
            columns = chunk_at(rank, chunk, units, UNIT, CHUNK, CHUNKS, EVEN) + tl.arange(0, CHUNK)
            for i in tl.static_range(ROWS_EACH):
                at = (before * ROWS_EACH + i) * CHUNKS + chunk
                x, dy, g = read(tiles, at, wide_w, None)
                second_pass(x, g, last_rstds[i], slopes[i], offsets[i], tiles, at, dx_at + i * dx_row + columns, own)
        if FIRST:
            dw, db, new_gs, new_ghs = dws[chunk:chunk + 1], dbs[chunk:chunk + 1], (), ()
            for i in tl.static_range(ROWS_EACH):
                x, dy, g = read(tiles, (slot * ROWS_EACH + i) * CHUNKS + chunk, wide_w, own)
                mean = means[i] if CENTRED else 0.0
                new_g, new_gh, dw, db = first_pass(x, dy, g, mean, rstds[i], gs[i], ghs[i], dw, db, CENTRED)
                new_gs, new_ghs = new_gs + (new_g, ), new_ghs + (new_gh, )
            gs, ghs, new_dws, new_dbs = new_gs, new_ghs, new_dws + dw, new_dbs + db
    found = ()
    if FIRST:
        found = all_summed(ghs + gs if CENTRED else ghs)
    return found, new_dws, new_dbs


@mimw.jit
def compute_ahead(tiles, full, free, weights, parts, arrived, mean_ptr, rstd_ptr, dx_ptr, dw_ptr, db_ptr, BLOCKS, units, dx_row,
                  rank, cluster, clusters, me: tl.constexpr, UNIT: tl.constexpr, CHUNK: tl.constexpr, CHUNKS: tl.constexpr,
                  CLUSTER: tl.constexpr, STAGES: tl.constexpr, CONSUMERS: tl.constexpr, CENTRED: tl.constexpr, EVEN: tl.constexpr,
                  ROWS_EACH: tl.constexpr, HELD: tl.constexpr):
    """Every CONSUMERS-th block of ROWS_EACH rows, from block number `me` of this cluster's on; then the sums over these rows."""
    N = CLUSTER * CHUNK * CHUNKS if EVEN else units * UNIT
    inside = own_columns(rank, units, UNIT, CHUNK, CHUNKS, EVEN)
    dws, dbs = zeros(dw_ptr, CHUNK, CHUNKS), zeros(db_ptr, CHUNK, CHUNKS)
    ws = held_w(tiles, weights, CHUNKS, HELD)
    first, stride = cluster + me * clusters, CONSUMERS * clusters
    if first < BLOCKS:
        rstds, next_rstds = of_rows(rstd_ptr, first, BLOCKS, ROWS_EACH), of_rows(rstd_ptr, first + stride, BLOCKS, ROWS_EACH)
        means, next_means = (), ()
        if CENTRED:
            means, next_means = of_rows(mean_ptr, first, BLOCKS, ROWS_EACH), of_rows(mean_ptr, first + stride, BLOCKS, ROWS_EACH)
        before = taken_slot(full, free, 0, me, STAGES, CONSUMERS)
        sums, dws, dbs = both_passes(tiles, ws, before, before, means, rstds, means, rstds, (), dx_ptr, dx_row, dws, dbs, inside, N,
                                     rank, units, UNIT, CHUNK, CHUNKS, CENTRED, EVEN, ROWS_EACH, True, False)
        if CLUSTER > 1:
            tell_sums(sums, parts[me * 2], arrived[me * 2], rank, CLUSTER)
        turn = 1
        for block in range(first + stride, BLOCKS, stride):
            last_means, last_rstds, means, rstds = means, rstds, next_means, next_rstds
            next_rstds = of_rows(rstd_ptr, block + stride, BLOCKS, ROWS_EACH)
            if CENTRED:
                next_means = of_rows(mean_ptr, block + stride, BLOCKS, ROWS_EACH)
            if CLUSTER > 1:
                place = me * 2 + (turn - 1) % 2
                sums = heard_sums(len(sums), parts[place], arrived[place], (turn - 1) // 2 % 2)
            slot = taken_slot(full, free, turn, me, STAGES, CONSUMERS)
            dx_at = dx_ptr + ((block - stride) * ROWS_EACH).to(tl.int64) * dx_row
            sums, dws, dbs = both_passes(tiles, ws, slot, before, means, rstds, last_means, last_rstds, sums, dx_at, dx_row, dws,
                                         dbs, inside, N, rank, units, UNIT, CHUNK, CHUNKS, CENTRED, EVEN, ROWS_EACH, True, True)
            tlx.barrier_arrive(free[before])
            if CLUSTER > 1:
                place = me * 2 + turn % 2
                tell_sums(sums, parts[place], arrived[place], rank, CLUSTER)
            before = slot
            turn += 1
        turn -= 1
        if CLUSTER > 1:
            place = me * 2 + turn % 2
            sums = heard_sums(len(sums), parts[place], arrived[place], turn // 2 % 2)
        dx_at = dx_ptr + ((first + turn * stride) * ROWS_EACH).to(tl.int64) * dx_row
        both_passes(tiles, ws, before, before, means, rstds, means, rstds, sums, dx_at, dx_row, (), (), inside, N, rank, units,
                    UNIT, CHUNK, CHUNKS, CENTRED, EVEN, ROWS_EACH, False, True)
    write_sums(dws, dbs, dw_ptr, db_ptr, cluster * CONSUMERS + me, N, inside, rank, units, UNIT, CHUNK, CHUNKS, EVEN)
