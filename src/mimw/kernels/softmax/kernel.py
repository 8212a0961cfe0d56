"""Softmax and log-softmax of many long rows on Hopper: one warp keeps a ring of row parts full by bulk copies, warpgroups take the
rows in turn.

Input: x [ROWS, N]. Output: y [ROWS, N]. For example:

    kernel, grid, args, meta = arguments(x, y)
    softmax[grid](*args, **meta)

The roles, the ring and the parts of a row are those of ../norm/kernel.py. A row stays in registers from its maximum to y, so each
number is read once, and its power is computed once.
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx

from ..norm.exchange import exchange_of
from ..norm.ring import Matrix, chunk_columns, cluster_rows, load_rows, own_columns, part_of, ring_of, taken_slot, tiles_for
from .sums import LN2, LOG2E, finite, part_sum, row_sum


@mimw.jit
def read_part(tiles, slot, inside, CHUNKS: tl.constexpr):
    """The part in slot number `slot` in units of log2(e), -inf where `inside` is false."""
    xs = ()
    for chunk in tl.static_range(CHUNKS):
        x = tlx.local_load(tiles[slot * CHUNKS + chunk]).to(tl.float32) * LOG2E
        if inside is not None:
            x = tl.where(inside[chunk], x, float("-inf"))
        xs = xs + (x, )
    return xs


@mimw.jit
def compute(tiles, y, rows, part, ring, exchange, me: tl.constexpr, LOG: tl.constexpr):
    """Every CONSUMERS-th row, from row number `me` of this cluster's on."""
    inside = own_columns(part)
    turn = 0
    for row in range(rows.cluster + me * rows.clusters, rows.count, ring.CONSUMERS * rows.clusters):
        slot = taken_slot(ring, turn, me)
        xs = read_part(tiles, slot, inside, part.CHUNKS)
        tlx.barrier_arrive(ring.free[slot])
        own, total, powers = part_sum(xs)
        largest = own
        if part.CLUSTER > 1:
            largest, total = row_sum(exchange.at(me * 2 + turn % 2), turn // 2 % 2, own, total)
        if LOG:
            offset = (finite(largest) + tl.log2(total)) * LN2
        else:
            factor = tl.exp2(finite(own) - finite(largest)) / total
        y_at = y.row(row)
        for chunk in tl.static_range(part.CHUNKS):
            result = xs[chunk] * LN2 - offset if LOG else powers[chunk] * factor
            tl.store(y_at + chunk_columns(part, chunk), result.to(tlx.dtype_of(y_at)),
                     mask=None if inside is None else inside[chunk])
        turn += 1


@mimw.jit
def softmax(x_ptr, y_ptr, ROWS, units, x_units, y_units, FORM: tl.constexpr, LOG: tl.constexpr):
    """y = exp(x) over the sum of its row, or its logarithm.

    args:      units, x_units, y_units  columns, and the distances of rows, in units of 16 bytes
               FORM                     the parts of rows, and the ring (../norm/ring.py)
    """
    rank = tlx.cluster_cta_rank() if FORM.CLUSTER > 1 else 0
    rows, part = cluster_rows(ROWS, FORM.CLUSTER), part_of(rank, units, FORM)
    tiles, ring = tiles_for(x_ptr, FORM.STAGES * FORM.CHUNKS, FORM.CHUNK), ring_of(FORM.STAGES, FORM.CONSUMERS)
    exchange = exchange_of(2 * FORM.CONSUMERS, rank, FORM.CLUSTER)
    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=112, replicate=FORM.CONSUMERS):  # consumer
            compute(tiles, Matrix(y_ptr, y_units * FORM.UNIT), rows, part, ring, exchange, tlx.async_task_replica_id(), LOG)
        with tlx.async_task(num_warps=1, num_regs=24):  # producer
            load_rows((Matrix(x_ptr, x_units * FORM.UNIT), ), (tiles, ), rows, ring, part)
