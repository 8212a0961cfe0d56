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

from .exchange import exchange_of, send_pair, send_sums
from .ring import (
    Matrix,
    RingForm,
    bytes_of,
    chunk_columns,
    cluster_rows,
    filled_slot,
    own_columns,
    part_of,
    ring_of,
    start_part,
    start_rows,
    taken_slot,
    tiles_for,
)
from .rows import ask_for_row, hand_on, queue_of, row_in, steal_rows, stolen_row
from .statistics import added, all_summed, part_statistics, row_statistics
from .unpack import unpacked

# Rows, their columns, and the distances of rows of each matrix, in units of 16 bytes at least.
Units = namedtuple("Units", "rows units x residual y total")


@tle.struct
class NormForm(RingForm):
    """The constants of a launch: a row loses its mean where CENTRED, and stays in registers from its statistics to y where KEEP, so
    that its slot is free the earlier. HEAD rows of each cluster are not stolen, at most rows // clusters; 0: none is stolen.
    BEHIND rows of each cluster are asked for before w and b: 1 to STAGES, at most rows // clusters. ROWS_EACH rows are taken at a
    time, 2 only where KEEP and HEAD is 0."""
    CENTRED: tl.constexpr
    KEEP: tl.constexpr
    HEAD: tl.constexpr
    BEHIND: tl.constexpr
    ROWS_EACH: tl.constexpr


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
        for number in tl.static_range(rows.EACH):
            slot = (step * rows.EACH + number) % ring.STAGES
            tlx.barrier_wait(ring.free[slot], ((step * rows.EACH + number) // ring.STAGES & 1) ^ 1)
            if queue.HEAD > 0:
                hand_on(queue, slot, row)
                if step >= queue.HEAD - 1:
                    ask_for_row(queue)  # on its way while this row's copies are started
            start_rows((x, residual), (tiles.x, tiles.residual), row * rows.EACH + number, slot, ring.full, part)
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
def several_statistics(xs, inside, count, CENTRED: tl.constexpr):
    """Means of a tuple of rows' parts, then their sums of squares about them: `part_statistics` in two reductions for all rows."""
    sums, means, squares = (), (), ()
    for i in tl.static_range(len(xs)):
        sums = sums + (added(xs[i]), )
    if CENTRED:
        sums = all_summed(sums)
    for i in tl.static_range(len(xs)):
        mean = sums[i] / tl.maximum(count, 1) if CENTRED else 0.0
        total = tl.zeros(xs[i][0].shape, tl.float32)
        for chunk in tl.static_range(len(xs[i])):
            centred = xs[i][chunk] - mean if CENTRED else xs[i][chunk]
            if CENTRED and inside is not None:
                centred = tl.where(inside[chunk], centred, 0.0)
            total += centred * centred
        means, squares = means + (mean, ), squares + (total, )
    return means + all_summed(squares)


@mimw.jit
def several_rows(place, phase, N, BLOCK: tl.constexpr, EACH: tl.constexpr):
    """(mean, variance) of each of EACH whole rows."""
    tlx.barrier_wait(place.arrived, phase)
    numbers, columns = tlx.local_load(place.numbers), tl.arange(0, 2 * EACH)[None, :]
    counts = tl.maximum(tl.minimum(N - tl.arange(0, place.CLUSTER) * BLOCK, BLOCK), 0)
    found = ()
    for i in tl.static_range(EACH):
        means, squares = tl.sum(tl.where(columns == i, numbers, 0.0), 1), tl.sum(tl.where(columns == EACH + i, numbers, 0.0), 1)
        mean = tl.sum(means * counts) / N
        found = found + ((mean, tl.sum(squares + (means - mean) * (means - mean) * counts) / N), )
    return found


@mimw.jit
def compute_several(tiles, weights, out, part, rows, ring, exchange, recipe, me: tl.constexpr):
    """Every CONSUMERS-th block of rows of this cluster's, from number `me` on, held in registers."""
    BLOCK: tl.constexpr = part.CHUNK * part.CHUNKS
    N = part.CLUSTER * BLOCK if part.EVEN else part.units * part.UNIT
    inside = own_columns(part)
    count = BLOCK if part.EVEN else tl.maximum(tl.minimum(N - part.rank * BLOCK, BLOCK), 0)
    turn = 0
    for block in range(rows.cluster + me * rows.clusters, rows.count, ring.CONSUMERS * rows.clusters):
        xs = ()
        for i in tl.static_range(rows.EACH):
            slot = filled_slot(ring, (turn * ring.CONSUMERS + me) * rows.EACH + i)
            total_at = None
            if out.total.pointer is not None:
                total_at = out.total.row(block * rows.EACH + i)
            xs = xs + (read_part(tiles, slot, total_at, inside, part, True), )
            tlx.barrier_arrive(ring.free[slot])
        numbers = several_statistics(xs, inside, count, recipe.CENTRED)
        found = ()
        if part.CLUSTER == 1:
            for i in tl.static_range(rows.EACH):
                found = found + ((numbers[i], numbers[rows.EACH + i] / N), )
        else:
            place = me * 2 + turn % 2
            send_sums(exchange.at(place), numbers)
            found = several_rows(exchange.at(place), turn // 2 % 2, N, BLOCK, rows.EACH)
        if tiles.w is not None or tiles.b is not None:
            tlx.barrier_wait(weights.arrived[0], 0)
        scales = ()
        for i in tl.static_range(rows.EACH):
            row = block * rows.EACH + i
            mean, variance = found[i]
            scale = tl.rsqrt(variance + recipe.eps)
            scales = scales + (scale, )
            if out.mean is not None:
                tl.store(out.mean + row, mean, mask=part.rank == 0)
            if out.rstd is not None:
                tl.store(out.rstd + row, scale, mask=part.rank == 0)
        for chunk in tl.static_range(part.CHUNKS):
            if tiles.w is not None:
                w = unpacked(tlx.local_load(tiles.w[chunk]))
            if tiles.b is not None:
                b = unpacked(tlx.local_load(tiles.b[chunk]))
            for i in tl.static_range(rows.EACH):
                y = xs[i][chunk] * scales[i] - found[i][0] * scales[i] if recipe.CENTRED else xs[i][chunk] * scales[i]
                if tiles.w is not None:
                    y *= w
                if tiles.b is not None:
                    y += b
                y_at = out.y.row(block * rows.EACH + i)
                tl.store(y_at + chunk_columns(part, chunk), y.to(tlx.dtype_of(y_at)), mask=None if inside is None else inside[chunk])
        turn += 1


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
    rows, part = cluster_rows(units.rows // FORM.ROWS_EACH, FORM.CLUSTER, FORM.ROWS_EACH), part_of(rank, units.units, FORM)

    STAGED: tl.constexpr = FORM.STAGES * FORM.CHUNKS
    tiles = Tiles(tiles_for(x_ptr, STAGED, FORM.CHUNK), tiles_for(residual_ptr, STAGED, FORM.CHUNK),
                  tiles_for(w_ptr, FORM.CHUNKS, FORM.CHUNK), tiles_for(b_ptr, FORM.CHUNKS, FORM.CHUNK))
    ring, weights = ring_of(FORM.STAGES, FORM.CONSUMERS), Weights(w_ptr, b_ptr, tlx.alloc_barriers(1))
    queue = queue_of(FORM.HEAD, FORM.STAGES, FORM.CLUSTER)
    exchange = exchange_of(2 * FORM.CONSUMERS, rank, FORM.CLUSTER, 2 * FORM.ROWS_EACH)

    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=112 if FORM.CONSUMERS > 1 else None, replicate=FORM.CONSUMERS):  # consumer
            me: tl.constexpr = tlx.async_task_replica_id()
            y, total = Matrix(y_ptr, units.y * FORM.UNIT), Matrix(total_ptr, units.total * FORM.UNIT)
            out = Outputs(y, total, mean_ptr, rstd_ptr)
            recipe = Recipe(eps, FORM.CENTRED, FORM.KEEP)
            if FORM.ROWS_EACH > 1:
                compute_several(tiles, weights, out, part, rows, ring, exchange, recipe, me)
            else:
                compute(tiles, weights, out, part, rows, ring, queue, exchange, recipe, me)
        with tlx.async_task(num_warps=1, num_regs=24 if FORM.CONSUMERS > 1 else None):  # producer
            x, residual = Matrix(x_ptr, units.x * FORM.UNIT), Matrix(residual_ptr, units.residual * FORM.UNIT)
            load(x, residual, weights, tiles, part, rows, ring, queue, FORM.BEHIND)
        if FORM.HEAD > 0:
            with tlx.async_task(num_warps=1, num_regs=24 if FORM.CONSUMERS > 1 else None):  # scheduler
                steal_rows(queue, counter_ptr, rows, rank)
