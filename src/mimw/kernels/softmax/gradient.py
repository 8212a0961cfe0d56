"""The gradient of softmax and log-softmax of many long rows on Hopper: one warp keeps a ring of parts of y and dy full by bulk
copies, warpgroups take the rows in turn.

Input: y and dy [ROWS, N]. Output: dx [ROWS, N]. For example:

    kernel, grid, args, meta = gradient_arguments(y, dy, dx)
    softmax_gradient_ring[grid](*args, **meta)

The formulas are those of direct.py, the ring and the parts of a row those of kernel.py; a slot holds a part of y and one of dy.
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx

from ..norm.exchange import exchange_of, received_pairs, send_pair
from ..norm.ring import Matrix, chunk_columns, cluster_rows, load_rows, own_columns, part_of, ring_of, taken_slot, tiles_for
from ..norm.statistics import added
from .sums import LOG2E


@mimw.jit
def read_part(tiles, slot, inside, CHUNKS: tl.constexpr):
    """The part in slot number `slot` as a tuple of fp32 tiles, 0 where `inside` is false."""
    parts = ()
    for chunk in tl.static_range(CHUNKS):
        part = tlx.local_load(tiles[slot * CHUNKS + chunk]).to(tl.float32)
        if inside is not None:
            part = tl.where(inside[chunk], part, 0.0)
        parts = parts + (part, )
    return parts


@mimw.jit
def part_total(ys, dys, LOG: tl.constexpr):
    """The sum of y dy, or of dy."""
    summands = dys
    if not LOG:
        summands = ()
        for i in tl.static_range(len(ys)):
            summands = summands + (ys[i] * dys[i], )
    return tl.sum(added(summands))


@mimw.jit
def compute(y_tiles, dy_tiles, dx, rows, part, ring, exchange, me: tl.constexpr, LOG: tl.constexpr):
    """Every CONSUMERS-th row, from row number `me` of this cluster's on."""
    inside = own_columns(part)
    turn = 0
    for row in range(rows.cluster + me * rows.clusters, rows.count, ring.CONSUMERS * rows.clusters):
        slot = taken_slot(ring, turn, me)
        ys, dys = read_part(y_tiles, slot, inside, part.CHUNKS), read_part(dy_tiles, slot, inside, part.CHUNKS)
        tlx.barrier_arrive(ring.free[slot])
        total = part_total(ys, dys, LOG)
        if part.CLUSTER > 1:
            place = me * 2 + turn % 2
            send_pair(exchange.at(place), total, total)
            totals, _ = received_pairs(exchange.at(place), turn // 2 % 2)
            total = tl.sum(totals)
        dx_at = dx.row(row)
        for chunk in tl.static_range(part.CHUNKS):
            y, dy = ys[chunk], dys[chunk]
            result = dy - tl.exp2(y * LOG2E) * total if LOG else y * (dy - total)
            tl.store(dx_at + chunk_columns(part, chunk), result.to(tlx.dtype_of(dx_at)),
                     mask=None if inside is None else inside[chunk])
        turn += 1


@mimw.jit
def softmax_gradient_ring(y_ptr, dy_ptr, dx_ptr, ROWS, units, y_units, dy_units, dx_units, FORM: tl.constexpr, LOG: tl.constexpr):
    """dx = y (dy - sum of y dy of the row); of the logarithm dx = dy - exp(y) (sum of dy of the row).

    args:      units, y_units, ...  columns, and the distances of rows, in units of 16 bytes
               FORM                 the parts of rows, and the ring (../norm/ring.py)
    """
    rank = tlx.cluster_cta_rank() if FORM.CLUSTER > 1 else 0
    rows, part = cluster_rows(ROWS, FORM.CLUSTER), part_of(rank, units, FORM)
    COUNT: tl.constexpr = FORM.STAGES * FORM.CHUNKS
    y_tiles, dy_tiles = tiles_for(y_ptr, COUNT, FORM.CHUNK), tiles_for(dy_ptr, COUNT, FORM.CHUNK)
    ring, exchange = ring_of(FORM.STAGES, FORM.CONSUMERS), exchange_of(2 * FORM.CONSUMERS, rank, FORM.CLUSTER)
    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=112, replicate=FORM.CONSUMERS):  # consumer
            me: tl.constexpr = tlx.async_task_replica_id()
            compute(y_tiles, dy_tiles, Matrix(dx_ptr, dx_units * FORM.UNIT), rows, part, ring, exchange, me, LOG)
        with tlx.async_task(num_warps=1, num_regs=24):  # producer
            y, dy = Matrix(y_ptr, y_units * FORM.UNIT), Matrix(dy_ptr, dy_units * FORM.UNIT)
            load_rows((y, dy), (y_tiles, dy_tiles), rows, ring, part)
