"""Gradients of a norm in the order of the formula: a block's sums, the exchange of them between CTAs, its dx.

Input: slots of the ring. Output: dx, and the sums over a consumer's rows. For example:

    compute(tiles, w_arrived, out, rows, part, ring, exchange, me, HELD)        consumer `me` of the ring, for all its blocks

While a consumer waits for the other CTAs another one computes; ahead.py does without the wait.
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx

from ..norm.exchange import received_sums, send_sums
from ..norm.ring import chunk_columns, own_columns, taken_slot
from ..norm.statistics import all_summed
from .chunks import chunk_of_w, first_pass, held_w, lines_of, read, second_pass, write_sums, zeros
from .load import moments_of


@mimw.jit
def compute(tiles, w_arrived, out, rows, part, ring, exchange, me: tl.constexpr, HELD: tl.constexpr):
    """Every CONSUMERS-th block of rows, from block number `me` of this cluster's on; then the sums over these rows."""
    N = part.CLUSTER * part.CHUNK * part.CHUNKS if part.EVEN else part.units * part.UNIT
    inside = own_columns(part)
    dws, dbs = zeros(out.dw, part.CHUNK, part.CHUNKS), zeros(out.db, part.CHUNK, part.CHUNKS)
    ws = held_w(tiles, w_arrived, part.CHUNKS, HELD)
    first, stride = rows.cluster + me * rows.clusters, ring.CONSUMERS * rows.clusters
    turn = 0
    for block in range(first, rows.count, stride):
        slot = taken_slot(ring, turn, me)
        moments = moments_of(tiles, slot, rows.EACH)
        g_sums, gh_sums = (), ()
        for i in tl.static_range(rows.EACH):
            mean = moments.means[i] if moments.CENTRED else 0.0
            new_dws, new_dbs = (), ()
            g_total, gh_total = tl.zeros((part.CHUNK, ), tl.float32), tl.zeros((part.CHUNK, ), tl.float32)
            for chunk in tl.static_range(part.CHUNKS):
                numbers = read(tiles, (slot * rows.EACH + i) * part.CHUNKS + chunk, chunk_of_w(tiles, ws, chunk),
                               None if inside is None else inside[chunk])
                g_total, gh_total, dw, db = first_pass(numbers, mean, moments.rstds[i], g_total, gh_total, dws[chunk:chunk + 1],
                                                       dbs[chunk:chunk + 1], moments.CENTRED)
                new_dws, new_dbs = new_dws + dw, new_dbs + db
            dws, dbs, g_sums, gh_sums = new_dws, new_dbs, g_sums + (g_total, ), gh_sums + (gh_total, )
        sums = all_summed(gh_sums + g_sums if moments.CENTRED else gh_sums)
        if part.CLUSTER > 1:
            place = me * 2 + turn % 2
            send_sums(exchange.at(place), sums)
            sums = received_sums(exchange.at(place), turn // 2 % 2, len(sums))
        lines = lines_of(sums, moments, N, rows.EACH)
        for i in tl.static_range(rows.EACH):
            dx_at = out.dx.row(block * rows.EACH + i)
            for chunk in tl.static_range(part.CHUNKS):
                at = (slot * rows.EACH + i) * part.CHUNKS + chunk
                numbers = read(tiles, at, chunk_of_w(tiles, ws, chunk), None)
                second_pass(numbers, lines, i, tiles, at, dx_at + chunk_columns(part, chunk),
                            None if inside is None else inside[chunk])
        tlx.barrier_arrive(ring.free[slot])
        turn += 1
    write_sums(dws, dbs, out, rows.cluster * ring.CONSUMERS + me, N, inside, part)
