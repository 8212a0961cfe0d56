"""LayerNorm and RMSNorm of many long rows on Hopper: one warp keeps a ring of row parts full by bulk copies, warpgroups take the
rows in turn.

Input: x [ROWS, N], and optionally residual [ROWS, N], w [N], b [N]. Output: y [ROWS, N]; optionally the sum x + residual, and mean
and 1 / deviation of each row. For example:

    grid, args, meta = arguments(x, w, b, y, clusters=66)
    norm[grid](*args, **meta)

The CTAs of a cluster split each row: CTA number `rank` has the columns from rank * BLOCK on, and keeps its part of w and b in
shared memory. Cluster c takes the rows c, c + clusters, ... Roles of each CTA: `load`, which runs STAGES rows ahead, and CONSUMERS
times `compute`, which take the rows in turn, so that one computes while another waits for what the other CTAs of the cluster send.

A part is CHUNKS chunks of CHUNK columns: a tile of a chunk has a power of two of elements, a row need not.
"""

from collections import namedtuple
from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from .exchange import exchange_of, send_pair
from .ring import (
    Matrix,
    RingForm,
    bytes_of,
    chunk_columns,
    cluster_rows,
    own_columns,
    part_of,
    ring_of,
    start_part,
    start_rows,
    taken_slot,
    tiles_for,
)
from .rows import ask_for_row, hand_on, queue_of, row_in, steal_rows, stolen_row
from .statistics import part_statistics, row_statistics
from .unpack import unpacked

# Rows, their columns, and the distances of rows of each matrix, in units of 16 bytes at least.
Units = namedtuple("Units", "rows units x residual y total")


@tle.struct
class NormForm(RingForm):
    """The constants of a launch: a row loses its mean where CENTRED, and stays in registers from its statistics to y where KEEP, so
    that its slot is free the earlier. HEAD rows of each cluster are not stolen, at most rows // clusters; 0: none is stolen.
    BEHIND rows of each cluster are asked for before w and b: 1 to STAGES, at most rows // clusters."""
    CENTRED: tl.constexpr
    KEEP: tl.constexpr
    HEAD: tl.constexpr
    BEHIND: tl.constexpr


@tle.struct
class Tiles:
    """Parts of x and of the residual, a slot each, and of w and b; None for what there is none of."""
    x: tlx.buffered_tensor
    residual: tlx.buffered_tensor | None
    w: tlx.buffered_tensor | None
    b: tlx.buffered_tensor | None


@tle.struct
class Weights:
    """w and b in global memory, and the barrier of their parts."""
    w: tl.tensor | None
    b: tl.tensor | None
    arrived: tlx.mbarrier


@tle.struct
class Outputs:
    """y, and what may be None: the sums x + residual, the means and 1 / deviations."""
    y: Matrix
    total: Matrix
    mean: tl.tensor | None
    rstd: tl.tensor | None


@tle.struct
class Recipe:
    """The way from a row to y. KEEP: it stays in registers from its statistics to y."""
    eps: Any
    CENTRED: tl.constexpr
    KEEP: tl.constexpr


@mimw.jit
def start_weights(weights, tiles, part):
    """Start the copies of this CTA's parts of w and b."""
    tlx.barrier_expect_bytes(weights.arrived[0], part.CHUNK * part.CHUNKS * bytes_of((weights.w, weights.b)))
    if weights.w is not None:
        start_part(part, weights.w, tiles.w, 0, weights.arrived[0])
    if weights.b is not None:
        start_part(part, weights.b, tiles.b, 0, weights.arrived[0])


@mimw.jit
def load(x, residual, weights, tiles, part, rows, ring, queue, BEHIND: tl.constexpr):
    """This CTA's parts of its rows, in order; w and b behind the first BEHIND ones: they are wanted later, and while they come, all
    of them out of L2, the memory has rows to bring."""
    row, step = rows.cluster, 0
    while row < rows.count:
        slot = step % ring.STAGES
        tlx.barrier_wait(ring.free[slot], (step // ring.STAGES & 1) ^ 1)
        if queue.HEAD > 0:
            hand_on(queue, slot, row)
            if step >= queue.HEAD - 1:
                ask_for_row(queue)  # on its way while this row's copies are started
        start_rows((x, residual), (tiles.x, tiles.residual), row, slot, ring.full, part)
        if weights.w is not None or weights.b is not None:
            if step == BEHIND - 1:
                start_weights(weights, tiles, part)
        step += 1
        row += rows.clusters
        if queue.HEAD > 0:
            if step >= queue.HEAD:
                row = stolen_row(queue, step - queue.HEAD)
    if queue.HEAD > 0:
        for end in tl.static_range(ring.CONSUMERS):  # each of them reads that there is no more
            slot = (step + end) % ring.STAGES
            tlx.barrier_wait(ring.free[slot], ((step + end) // ring.STAGES & 1) ^ 1)
            hand_on(queue, slot, rows.count)
            tlx.barrier_arrive(ring.full[slot])


@mimw.jit
def read_part(tiles, slot, total_at, inside, part, STORE: tl.constexpr):
    """The part in slot number `slot` as a tuple of fp32 tiles, the residual added and rounded to the type of the sum, which goes
    out where STORE; zeros where `inside` is false."""
    xs = ()
    for chunk in tl.static_range(part.CHUNKS):
        x = tlx.local_load(tiles.x[slot * part.CHUNKS + chunk])
        if tiles.residual is not None:     # LLVM adds two bf16 of a register by one instruction where the sum is rounded to bf16
            x = x.to(tl.float32) + tlx.local_load(tiles.residual[slot * part.CHUNKS + chunk]).to(tl.float32)
        else:
            x = unpacked(x)
        if total_at is not None:
            rounded = x.to(tlx.dtype_of(total_at))
            x = rounded.to(tl.float32)
            if STORE:
                tl.store(total_at + chunk_columns(part, chunk), rounded, mask=None if inside is None else inside[chunk])
        if inside is not None:
            x = tl.where(inside[chunk], x, 0.0)
        xs = xs + (x, )
    return xs


@mimw.jit
def write_part(xs, y_at, mean, scale, tiles, inside, part, CENTRED: tl.constexpr):
    """y of a part."""
    for chunk in tl.static_range(part.CHUNKS):
        # One fused multiply and add normalises an element, another one scales and shifts it.
        y = xs[chunk] * scale - mean * scale if CENTRED else xs[chunk] * scale
        if tiles.w is not None:
            y *= unpacked(tlx.local_load(tiles.w[chunk]))
        if tiles.b is not None:
            y += unpacked(tlx.local_load(tiles.b[chunk]))
        tl.store(y_at + chunk_columns(part, chunk), y.to(tlx.dtype_of(y_at)), mask=None if inside is None else inside[chunk])


@mimw.jit
def compute(tiles, weights, out, part, rows, ring, queue, exchange, recipe, me: tl.constexpr):
    """Every CONSUMERS-th row of this cluster's, from number `me` on; where rows are stolen, `queue` says which they are."""
    BLOCK: tl.constexpr = part.CHUNK * part.CHUNKS
    N = part.CLUSTER * BLOCK if part.EVEN else part.units * part.UNIT
    inside = own_columns(part)
    count = BLOCK if part.EVEN else tl.maximum(tl.minimum(N - part.rank * BLOCK, BLOCK), 0)
    turn = 0
    row = rows.cluster + me * rows.clusters if queue.HEAD == 0 else row_in(queue, ring, me, 0)
    while row < rows.count:
        step = turn * ring.CONSUMERS + me
        slot = step % ring.STAGES if queue.HEAD > 0 else taken_slot(ring, turn, me)
        total_at = None
        if out.total.pointer is not None:
            total_at = out.total.row(row)
        xs = read_part(tiles, slot, total_at, inside, part, True)
        if recipe.KEEP:
            tlx.barrier_arrive(ring.free[slot])
        mean, squares = part_statistics(xs, inside, count, recipe.CENTRED)
        if part.CLUSTER == 1:
            variance = squares / N
        else:
            place = me * 2 + turn % 2
            send_pair(exchange.at(place), mean, squares)
            mean, variance = row_statistics(exchange.at(place), turn // 2 % 2, N, BLOCK)
        scale = tl.rsqrt(variance + recipe.eps)
        if out.mean is not None:
            tl.store(out.mean + row, mean, mask=part.rank == 0)
        if out.rstd is not None:
            tl.store(out.rstd + row, scale, mask=part.rank == 0)
        if tiles.w is not None or tiles.b is not None:
            tlx.barrier_wait(weights.arrived[0], 0)  # its first phase is the only one: every later wait returns at once
        if not recipe.KEEP:
            xs = read_part(tiles, slot, total_at, inside, part, False)
        write_part(xs, out.y.row(row), mean, scale, tiles, inside, part, recipe.CENTRED)
        if not recipe.KEEP:
            tlx.barrier_arrive(ring.free[slot])
        turn += 1
        step += ring.CONSUMERS
        if queue.HEAD == 0:
            row += ring.CONSUMERS * rows.clusters
        else:
            row = row_in(queue, ring, step % ring.STAGES, step // ring.STAGES & 1)


@mimw.jit
def norm(x_ptr, residual_ptr, w_ptr, b_ptr, y_ptr, total_ptr, mean_ptr, rstd_ptr, counter_ptr, units, eps, FORM: tl.constexpr):
    """y = (x - mean) / sqrt(variance + eps) w + b of each row of x + residual; not CENTRED: x / sqrt(mean square + eps) w + b.

    args:      residual, w, b, total, mean, rstd   may be None
               counter  int32, 0 before and after a launch, which one launch at a time may use: rows are stolen from it; None: equal
                        shares
               units    `Units`; FORM a `NormForm`
    """
    rank = tlx.cluster_cta_rank() if FORM.CLUSTER > 1 else 0
    rows, part = cluster_rows(units.rows, FORM.CLUSTER), part_of(rank, units.units, FORM)

    STAGED: tl.constexpr = FORM.STAGES * FORM.CHUNKS
    tiles = Tiles(tiles_for(x_ptr, STAGED, FORM.CHUNK), tiles_for(residual_ptr, STAGED, FORM.CHUNK),
                  tiles_for(w_ptr, FORM.CHUNKS, FORM.CHUNK), tiles_for(b_ptr, FORM.CHUNKS, FORM.CHUNK))
    ring, weights = ring_of(FORM.STAGES, FORM.CONSUMERS), Weights(w_ptr, b_ptr, tlx.alloc_barriers(1))
    queue, exchange = queue_of(FORM.HEAD, FORM.STAGES, FORM.CLUSTER), exchange_of(2 * FORM.CONSUMERS, rank, FORM.CLUSTER)

    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=112 if FORM.CONSUMERS > 1 else None, replicate=FORM.CONSUMERS):  # consumer
            me: tl.constexpr = tlx.async_task_replica_id()
            y, total = Matrix(y_ptr, units.y * FORM.UNIT), Matrix(total_ptr, units.total * FORM.UNIT)
            out = Outputs(y, total, mean_ptr, rstd_ptr)
            compute(tiles, weights, out, part, rows, ring, queue, exchange, Recipe(eps, FORM.CENTRED, FORM.KEEP), me)
        with tlx.async_task(num_warps=1, num_regs=24 if FORM.CONSUMERS > 1 else None):  # producer
            x, residual = Matrix(x_ptr, units.x * FORM.UNIT), Matrix(residual_ptr, units.residual * FORM.UNIT)
            load(x, residual, weights, tiles, part, rows, ring, queue, FORM.BEHIND)
        if FORM.HEAD > 0:
            with tlx.async_task(num_warps=1, num_regs=24 if FORM.CONSUMERS > 1 else None):  # scheduler
                steal_rows(queue, counter_ptr, rows, rank)
