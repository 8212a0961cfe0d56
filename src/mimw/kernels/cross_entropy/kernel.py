"""Cross entropy of many long rows on Hopper, with the gradient of the logits in the same launch: each number is read once and,
where there is a gradient, written once. One warp keeps a ring of row parts full by bulk copies, warpgroups take the rows in turn.

Input: x [ROWS, N], targets [ROWS]. Output: losses and lses [ROWS], and dx [ROWS, N], which may be x itself. For example:

    kernel, grid, args, meta = arguments(x, targets, losses, lses, dx=x)
    cross_entropy[grid](*args, **meta)

The formulas are those of direct.py, roles and ring those of ../softmax/kernel.py. A CTA writes dx only where it has read x itself,
into shared memory, so the logits may go while other CTAs still work at the same row. The target's logit is read from global memory
by the CTA whose part has it, before any of its threads writes: reductions over the whole CTA lie between.
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx

from ..norm.kernel import chunk_at, own_columns, tiles_for
from ..norm.statistics import added, send_statistics
from ..softmax.kernel import load, read_part
from ..softmax.sums import LN2, LOG2E, finite, part_sum, row_sum
from .direct import loss_of, scale_of


@mimw.jit
def sum_inside(xs, inside):
    """The sum of a tuple of tiles, where `inside`, a tuple of masks or None, is true."""
    there = xs
    if inside is not None:
        there = ()
        for i in tl.static_range(len(xs)):
            there = there + (tl.where(inside[i], xs[i], 0.0), )
    return tl.sum(added(there))


@mimw.jit
def compute(tiles, full, free, parts, arrived, x_ptr, targets_ptr, losses_ptr, lses_ptr, dx_ptr, count_ptr, ROWS, units, x_row,
            dx_row, scale, smoothing, z, ignored, rank, cluster, clusters, me: tl.constexpr, UNIT: tl.constexpr,
            CHUNK: tl.constexpr, CHUNKS: tl.constexpr, CLUSTER: tl.constexpr, STAGES: tl.constexpr, CONSUMERS: tl.constexpr,
            SMOOTH: tl.constexpr, KEEP: tl.constexpr, EVEN: tl.constexpr):
    """Every CONSUMERS-th row, from row number `me` of this cluster's on."""
    inside = own_columns(rank, units, UNIT, CHUNK, CHUNKS, EVEN)
    first, N = rank * (CHUNK * CHUNKS), units * UNIT
    if dx_ptr is not None:
        scale = scale_of(scale, count_ptr)
    turn = 0
    for row in range(cluster + me * clusters, ROWS, CONSUMERS * clusters):
        step = turn * CONSUMERS + me
        slot = step % STAGES
        target = tl.load(targets_ptr + row).to(tl.int64)
        if STAGES % CONSUMERS:
            tlx.barrier_wait(free[slot], (step // STAGES & 1) ^ 1)  # as in ../norm/kernel.py
        tlx.barrier_wait(full[slot], step // STAGES & 1)
        xs = read_part(tiles, slot, inside, CHUNKS)
        if KEEP:
            tlx.barrier_arrive(free[slot])
        other = 0.0
        if SMOOTH:
            other = sum_inside(xs, inside)
        known = (target >= 0) & (target < N)
        mine = known & (target >= first) & (target < first + CHUNK * CHUNKS)
        own_x = tl.load(x_ptr + row.to(tl.int64) * x_row + target, mask=mine, other=0).to(tl.float32) * LOG2E
        own, total, powers = part_sum(xs)
        largest = own
        if CLUSTER > 1:
            place = me * 2 + turn % 2
            largest, total = row_sum(own, total, parts[place], arrived[place], turn // 2 % 2, rank, CLUSTER)
            if SMOOTH:
                place = (CONSUMERS + me) * 2 + turn % 2
                send_statistics(other, other, parts[place], arrived[place], rank, CLUSTER)
                tlx.barrier_wait(arrived[place], turn // 2 % 2)
                others, _ = tlx.local_load(parts[place]).split()
                other = tl.sum(others)
        lse = (finite(largest) + tl.log2(total)) * LN2
        loss = tl.where(known, loss_of(own_x, other, lse, N, smoothing, z, SMOOTH), float("nan"))
        stored = mine | ((rank == 0) & (known == 0))
        tl.store(losses_ptr + row, tl.where(target == ignored, 0.0, loss), mask=stored)
        tl.store(lses_ptr + row, lse, mask=rank == 0)
        if dx_ptr is not None:
            row_scale = tl.where(target == ignored, 0.0, scale)
            factor = (1 + 2 * z * lse) / total * row_scale
            if KEEP:
                factor *= tl.exp2(finite(own) - finite(largest))
            spread, hit = smoothing / N * row_scale, (1 - smoothing) * row_scale
            dx_at = dx_ptr + row.to(tl.int64) * dx_row
            places = tl.arange(0, CHUNK)
            for chunk in tl.static_range(CHUNKS):
                at = chunk_at(rank, chunk, units, UNIT, CHUNK, CHUNKS, EVEN)
                power = powers[chunk]
                if KEEP == 0:
                    x = tlx.local_load(tiles[slot * CHUNKS + chunk]).to(tl.float32) * LOG2E
                    power = tl.exp2(x - finite(largest))
                dx = power * factor - spread
                dx = tl.where(places == (target - at).to(tl.int32), dx - hit, dx)
                tl.store(dx_at + at + places, dx.to(tlx.dtype_of(dx_ptr)), mask=None if inside is None else inside[chunk])
        if KEEP == 0:
            tlx.barrier_arrive(free[slot])
        turn += 1


@mimw.jit
def cross_entropy(x_ptr, targets_ptr, losses_ptr, lses_ptr, dx_ptr, count_ptr, ROWS, units, x_units, dx_units, scale, smoothing,
                  z, ignored, UNIT: tl.constexpr, CHUNK: tl.constexpr, CHUNKS: tl.constexpr, CLUSTER: tl.constexpr,
                  STAGES: tl.constexpr, CONSUMERS: tl.constexpr, SMOOTH: tl.constexpr, KEEP: tl.constexpr,
                  EVEN: tl.constexpr):
    """losses and lses, fp32, and dx, which may be None, or x itself.

    args:      units, x_units, dx_units  columns, and the distances of rows, in units of UNIT elements of 16 bytes
               KEEP                      the powers stay in registers from the sum to the gradient, and the row's slot is given
                                         back at once; else the part is read twice from shared memory
               EVEN                      all parts are whole
    """
    rank = tlx.cluster_cta_rank() if CLUSTER > 1 else 0
    cluster, clusters = tl.program_id(0) // CLUSTER, tl.num_programs(0) // CLUSTER
    tiles = tiles_for(x_ptr, STAGES * CHUNKS, CHUNK)
    full, free = tlx.alloc_barriers(STAGES), tlx.alloc_barriers(STAGES)
    parts, arrived = None, None
    if CLUSTER > 1:
        EXCHANGES: tl.constexpr = 4 * CONSUMERS if SMOOTH else 2 * CONSUMERS
        parts = tlx.local_alloc((CLUSTER, 2), tl.float32, EXCHANGES)
        arrived = tlx.alloc_barriers(EXCHANGES)
    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=112, replicate=CONSUMERS):  # consumer
            me: tl.constexpr = tlx.async_task_replica_id()
            compute(tiles, full, free, parts, arrived, x_ptr, targets_ptr, losses_ptr, lses_ptr, dx_ptr, count_ptr, ROWS, units,
                    x_units * UNIT, dx_units * UNIT, scale, smoothing, z, ignored, rank, cluster, clusters, me, UNIT, CHUNK, CHUNKS,
                    CLUSTER, STAGES, CONSUMERS, SMOOTH, KEEP, EVEN)
        with tlx.async_task(num_warps=1, num_regs=24):  # producer
            load(x_ptr, tiles, full, free, ROWS, units, x_units * UNIT, rank, cluster, clusters, UNIT, CHUNK, CHUNKS, STAGES, EVEN)
