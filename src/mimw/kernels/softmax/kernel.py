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

from ..norm.ring import chunk_at, load_rows, own_columns, places_to_tell, taken_slot, tiles_for
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
def compute(tiles, full, free, parts, arrived, y_ptr, ROWS, units, y_row, rank, cluster, clusters, me: tl.constexpr,
            UNIT: tl.constexpr, CHUNK: tl.constexpr, CHUNKS: tl.constexpr, CLUSTER: tl.constexpr, STAGES: tl.constexpr,
            CONSUMERS: tl.constexpr, LOG: tl.constexpr, EVEN: tl.constexpr):
    """Every CONSUMERS-th row, from row number `me` of this cluster's on."""
    inside = own_columns(rank, units, UNIT, CHUNK, CHUNKS, EVEN)
    turn = 0
    for row in range(cluster + me * clusters, ROWS, CONSUMERS * clusters):
        slot = taken_slot(full, free, turn, me, STAGES, CONSUMERS)
        xs = read_part(tiles, slot, inside, CHUNKS)
        tlx.barrier_arrive(free[slot])
        own, total, powers = part_sum(xs)
        largest = own
        if CLUSTER > 1:
            place = me * 2 + turn % 2
            largest, total = row_sum(own, total, parts[place], arrived[place], turn // 2 % 2, rank, CLUSTER)
        if LOG:
            offset = (finite(largest) + tl.log2(total)) * LN2
        else:
            factor = tl.exp2(finite(own) - finite(largest)) / total
        y_at = y_ptr + row.to(tl.int64) * y_row
        for chunk in tl.static_range(CHUNKS):
            y = xs[chunk] * LN2 - offset if LOG else powers[chunk] * factor
            columns = chunk_at(rank, chunk, units, UNIT, CHUNK, CHUNKS, EVEN) + tl.arange(0, CHUNK)
            tl.store(y_at + columns, y.to(tlx.dtype_of(y_ptr)), mask=None if inside is None else inside[chunk])
        turn += 1


@mimw.jit
def softmax(x_ptr, y_ptr, ROWS, units, x_units, y_units, UNIT: tl.constexpr, CHUNK: tl.constexpr, CHUNKS: tl.constexpr,
            CLUSTER: tl.constexpr, STAGES: tl.constexpr, CONSUMERS: tl.constexpr, LOG: tl.constexpr, EVEN: tl.constexpr):
    """y = exp(x) over the sum of its row, or its logarithm.

    args:      units, x_units, y_units  columns, and the distances of rows, in units of UNIT elements of 16 bytes
               EVEN                     all parts are whole
    """
    rank = tlx.cluster_cta_rank() if CLUSTER > 1 else 0
    cluster, clusters = tl.program_id(0) // CLUSTER, tl.num_programs(0) // CLUSTER
    tiles = tiles_for(x_ptr, STAGES * CHUNKS, CHUNK)
    full, free = tlx.alloc_barriers(STAGES), tlx.alloc_barriers(STAGES)
    parts, arrived = places_to_tell(2, CONSUMERS, CLUSTER)
    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=112, replicate=CONSUMERS):  # consumer
            me: tl.constexpr = tlx.async_task_replica_id()
            compute(tiles, full, free, parts, arrived, y_ptr, ROWS, units, y_units * UNIT, rank, cluster, clusters, me, UNIT, CHUNK,
                    CHUNKS, CLUSTER, STAGES, CONSUMERS, LOG, EVEN)
        with tlx.async_task(num_warps=1, num_regs=24):  # producer
            load_rows((x_ptr, ), (x_units * UNIT, ), (tiles, ), full, free, ROWS, units, rank, cluster, clusters, UNIT, CHUNK,
                      CHUNKS, STAGES, EVEN)
