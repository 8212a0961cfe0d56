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

from ..norm.ring import chunk_at, load_rows, own_columns, places_to_tell, taken_slot, tiles_for
from ..norm.statistics import added, send_statistics
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
def compute(y_tiles, dy_tiles, full, free, parts, arrived, dx_ptr, ROWS, units, dx_row, rank, cluster, clusters, me: tl.constexpr,
            UNIT: tl.constexpr, CHUNK: tl.constexpr, CHUNKS: tl.constexpr, CLUSTER: tl.constexpr, STAGES: tl.constexpr,
            CONSUMERS: tl.constexpr, LOG: tl.constexpr, EVEN: tl.constexpr):
    """Every CONSUMERS-th row, from row number `me` of this cluster's on."""
    inside = own_columns(rank, units, UNIT, CHUNK, CHUNKS, EVEN)
    turn = 0
    for row in range(cluster + me * clusters, ROWS, CONSUMERS * clusters):
        slot = taken_slot(full, free, turn, me, STAGES, CONSUMERS)
        ys, dys = read_part(y_tiles, slot, inside, CHUNKS), read_part(dy_tiles, slot, inside, CHUNKS)
        tlx.barrier_arrive(free[slot])
        total = part_total(ys, dys, LOG)
        if CLUSTER > 1:
            place = me * 2 + turn % 2
            send_statistics(total, total, parts[place], arrived[place], rank, CLUSTER)
            tlx.barrier_wait(arrived[place], turn // 2 % 2)
            totals, _ = tlx.local_load(parts[place]).split()
            total = tl.sum(totals)
        dx_at = dx_ptr + row.to(tl.int64) * dx_row
        for chunk in tl.static_range(CHUNKS):
            y, dy = ys[chunk], dys[chunk]
            dx = dy - tl.exp2(y * LOG2E) * total if LOG else y * (dy - total)
            columns = chunk_at(rank, chunk, units, UNIT, CHUNK, CHUNKS, EVEN) + tl.arange(0, CHUNK)
            tl.store(dx_at + columns, dx.to(tlx.dtype_of(dx_ptr)), mask=None if inside is None else inside[chunk])
        turn += 1


@mimw.jit
def softmax_gradient_ring(y_ptr, dy_ptr, dx_ptr, ROWS, units, y_units, dy_units, dx_units, UNIT: tl.constexpr, CHUNK: tl.constexpr,
                          CHUNKS: tl.constexpr, CLUSTER: tl.constexpr, STAGES: tl.constexpr, CONSUMERS: tl.constexpr,
                          LOG: tl.constexpr, EVEN: tl.constexpr):
    """dx = y (dy - sum of y dy of the row); of the logarithm dx = dy - exp(y) (sum of dy of the row).

    args:      units, y_units, ...  columns, and the distances of rows, in units of UNIT elements of 16 bytes
               EVEN                 all parts are whole
    """
    rank = tlx.cluster_cta_rank() if CLUSTER > 1 else 0
    cluster, clusters = tl.program_id(0) // CLUSTER, tl.num_programs(0) // CLUSTER
    y_tiles, dy_tiles = tiles_for(y_ptr, STAGES * CHUNKS, CHUNK), tiles_for(dy_ptr, STAGES * CHUNKS, CHUNK)
    full, free = tlx.alloc_barriers(STAGES), tlx.alloc_barriers(STAGES)
    parts, arrived = places_to_tell(2, CONSUMERS, CLUSTER)
    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=112, replicate=CONSUMERS):  # consumer
            me: tl.constexpr = tlx.async_task_replica_id()
            compute(y_tiles, dy_tiles, full, free, parts, arrived, dx_ptr, ROWS, units, dx_units * UNIT, rank, cluster, clusters,
                    me, UNIT, CHUNK, CHUNKS, CLUSTER, STAGES, CONSUMERS, LOG, EVEN)
        with tlx.async_task(num_warps=1, num_regs=24):  # producer
            load_rows((y_ptr, dy_ptr), (y_units * UNIT, dy_units * UNIT), (y_tiles, dy_tiles), full, free, ROWS, units, rank,
                      cluster, clusters, UNIT, CHUNK, CHUNKS, STAGES, EVEN)
