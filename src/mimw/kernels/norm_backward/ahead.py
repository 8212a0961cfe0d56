"""Gradients of a norm with the exchange between CTAs out of the way: the first pass over a block of rows goes together with the
second one over the consumer's block before it.

Input and output of `compute_ahead` are those of `compute` in turns.py, whose place it takes:

    sums = both_passes(block n, second pass of block n - 1)     sums of block n; w is unpacked once for both
    send_sums(sums, ...)                                        to the other CTAs of the cluster
    sums = received_sums(...)                                   a block later: they have come meanwhile
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..norm.exchange import received_sums, send_sums
from ..norm.ring import chunk_columns, own_columns, taken_slot
from ..norm.statistics import all_summed
from .chunks import Moments, chunk_of_w, first_pass, held_w, lines_of, read, second_pass, write_sums, zeros
from .load import moments_of


@tle.struct
class First:
    """A block of rows whose sums are made, its slot, and the sums for dw and db so far."""
    slot: Any
    moments: Moments
    dws: tl.tuple
    dbs: tl.tuple


@tle.struct
class Second:
    """A block of rows whose dx is made, its slot, its sums over all CTAs, and where its dx goes."""
    slot: Any
    moments: Moments
    sums: tl.tuple
    dx_at: tl.tensor
    dx_step: Any


@mimw.jit
def both_passes(first, second, tiles, ws, inside, part, N, ROWS_EACH: tl.constexpr):
    """(sums, dws, dbs) of the first pass over a block; chunk by chunk with it the second one over another block. Either may be
    None."""
    gs, ghs, new_dws, new_dbs = (), (), (), ()
    for i in tl.static_range(ROWS_EACH):
        gs, ghs = gs + (tl.zeros((part.CHUNK, ), tl.float32), ), ghs + (tl.zeros((part.CHUNK, ), tl.float32), )
    if second is not None:
        lines = lines_of(second.sums, second.moments, N, ROWS_EACH)
    for chunk in tl.static_range(part.CHUNKS):
        wide_w = chunk_of_w(tiles, ws, chunk)
        own = None if inside is None else inside[chunk]
        if second is not None:
            columns = chunk_columns(part, chunk)
            for i in tl.static_range(ROWS_EACH):
                at = (second.slot * ROWS_EACH + i) * part.CHUNKS + chunk
                numbers = read(tiles, at, wide_w, None)
                second_pass(numbers, lines, i, tiles, at, second.dx_at + i * second.dx_step + columns, own)
        if first is not None:
            dw, db, new_gs, new_ghs = first.dws[chunk:chunk + 1], first.dbs[chunk:chunk + 1], (), ()
            for i in tl.static_range(ROWS_EACH):
                numbers = read(tiles, (first.slot * ROWS_EACH + i) * part.CHUNKS + chunk, wide_w, own)
                mean = first.moments.means[i] if first.moments.CENTRED else 0.0
                new_g, new_gh, dw, db = first_pass(numbers, mean, first.moments.rstds[i], gs[i], ghs[i], dw, db,
                                                   first.moments.CENTRED)
                new_gs, new_ghs = new_gs + (new_g, ), new_ghs + (new_gh, )
            gs, ghs, new_dws, new_dbs = new_gs, new_ghs, new_dws + dw, new_dbs + db
    found = ()
    if first is not None:
        found = all_summed(ghs + gs if first.moments.CENTRED else ghs)
    return found, new_dws, new_dbs


@mimw.jit
def compute_ahead(tiles, w_arrived, out, rows, part, ring, exchange, me: tl.constexpr, HELD: tl.constexpr):
    """Every CONSUMERS-th block of rows, from block number `me` of this cluster's on; then the sums over these rows."""
    ROWS_EACH: tl.constexpr = rows.EACH
    N = part.CLUSTER * part.CHUNK * part.CHUNKS if part.EVEN else part.units * part.UNIT
    inside = own_columns(part)
    dws, dbs = zeros(out.dw, part.CHUNK, part.CHUNKS), zeros(out.db, part.CHUNK, part.CHUNKS)
    ws = held_w(tiles, w_arrived, part.CHUNKS, HELD)
    begin, stride = rows.cluster + me * rows.clusters, ring.CONSUMERS * rows.clusters
    if begin < rows.count:
        before = taken_slot(ring, 0, me)
        first = First(before, moments_of(tiles, before, ROWS_EACH), dws, dbs)
        sums, dws, dbs = both_passes(first, None, tiles, ws, inside, part, N, ROWS_EACH)
        if part.CLUSTER > 1:
            send_sums(exchange.at(me * 2), sums)
        turn = 1
        for block in range(begin + stride, rows.count, stride):
            if part.CLUSTER > 1:
                place = me * 2 + (turn - 1) % 2
                sums = received_sums(exchange.at(place), (turn - 1) // 2 % 2, len(sums))
            slot = taken_slot(ring, turn, me)
            dx_at = out.dx.row((block - stride) * ROWS_EACH)
            coming = First(slot, moments_of(tiles, slot, ROWS_EACH), dws, dbs)
            last = Second(before, moments_of(tiles, before, ROWS_EACH), sums, dx_at, out.dx.step)
            sums, dws, dbs = both_passes(coming, last, tiles, ws, inside, part, N, ROWS_EACH)
            tlx.barrier_arrive(ring.free[before])
            if part.CLUSTER > 1:
                place = me * 2 + turn % 2
                send_sums(exchange.at(place), sums)
            before = slot
            turn += 1
        turn -= 1
        if part.CLUSTER > 1:
            place = me * 2 + turn % 2
            sums = received_sums(exchange.at(place), turn // 2 % 2, len(sums))
        dx_at = out.dx.row((begin + turn * stride) * ROWS_EACH)
        last = Second(before, moments_of(tiles, before, ROWS_EACH), sums, dx_at, out.dx.step)
        both_passes(None, last, tiles, ws, inside, part, N, ROWS_EACH)
    write_sums(dws, dbs, out, rows.cluster * ring.CONSUMERS + me, N, inside, part)
