"""LayerNorm and RMSNorm of many long rows on Hopper: one warp keeps a ring of row parts full by bulk copies, warpgroups take the
rows in turn.

Input: x [ROWS, N], and optionally residual [ROWS, N], w [N], b [N]. Output: y [ROWS, N]; optionally the sum x + residual, and mean
and 1 / deviation of each row. For example:

    grid, args, meta = arguments(x, w, b, y, clusters=66)
    norm[grid](*args, **meta)

The CTAs of a cluster split each row: CTA number `rank` has the columns from rank * BLOCK on, and keeps its part of w and b in
shared memory. Cluster c takes the rows c, c + clusters, ... Roles of each CTA: `load`, which runs STAGES rows ahead, and CONSUMERS
times `compute`, which take the rows in turn, so that one computes while another waits for what the other CTAs of the cluster say.

A part is CHUNKS chunks of CHUNK columns: a tile of a chunk has a power of two of elements, a row need not.
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx

from .ring import bytes_of, chunk_at, own_columns, places_to_tell, start_part, start_rows, taken_slot, tiles_for
from .rows import ask_for_row, draw_rows, drawn_row, hand_on, row_in
from .statistics import part_statistics, row_statistics, send_statistics
from .unpack import unpacked


@mimw.jit
def start_weights(w_ptr, b_ptr, w_tiles, b_tiles, weights, rank, units, UNIT: tl.constexpr, CHUNK: tl.constexpr,
                  CHUNKS: tl.constexpr, EVEN: tl.constexpr):
    """Start the copies of this CTA's parts of w and b."""
    tlx.barrier_expect_bytes(weights[0], CHUNK * CHUNKS * bytes_of((w_ptr, b_ptr)))
    if w_ptr is not None:
        start_part(w_ptr, w_tiles, 0, weights[0], rank, units, UNIT, CHUNK, CHUNKS, EVEN)
    if b_ptr is not None:
        start_part(b_ptr, b_tiles, 0, weights[0], rank, units, UNIT, CHUNK, CHUNKS, EVEN)


@mimw.jit
def load(x_ptr, residual_ptr, w_ptr, b_ptr, x_tiles, residual_tiles, w_tiles, b_tiles, full, free, weights, order, drawn, taken,
         numbers, ROWS, units, x_row, residual_row, rank, cluster, clusters, UNIT: tl.constexpr, CHUNK: tl.constexpr,
         CHUNKS: tl.constexpr, CLUSTER: tl.constexpr, STAGES: tl.constexpr, CONSUMERS: tl.constexpr, EVEN: tl.constexpr,
         HEAD: tl.constexpr, BEHIND: tl.constexpr):
    """This CTA's parts of its rows, in order; w and b behind the first BEHIND ones: they are wanted later, and while they come, all
    of them out of L2, the memory has rows to bring."""
    row, step = cluster, 0
    while row < ROWS:
        slot = step % STAGES
        tlx.barrier_wait(free[slot], (step // STAGES & 1) ^ 1)
        if HEAD > 0:
            hand_on(numbers, slot, row)
            if step >= HEAD - 1:
                ask_for_row(drawn, taken, CLUSTER)  # on its way while this row's copies are started
        start_rows((x_ptr, residual_ptr), (x_row, residual_row), (x_tiles, residual_tiles), row, slot, full, rank, units, UNIT,
                   CHUNK, CHUNKS, EVEN)
        if w_ptr is not None or b_ptr is not None:
            if step == BEHIND - 1:
                start_weights(w_ptr, b_ptr, w_tiles, b_tiles, weights, rank, units, UNIT, CHUNK, CHUNKS, EVEN)
        step += 1
        row += clusters
        if HEAD > 0:
            if step >= HEAD:
                row = drawn_row(order, drawn, step - HEAD)
    if HEAD > 0:
        for end in tl.static_range(CONSUMERS):  # each of them reads that there is no more
            slot = (step + end) % STAGES
            tlx.barrier_wait(free[slot], ((step + end) // STAGES & 1) ^ 1)
            hand_on(numbers, slot, ROWS)
            tlx.barrier_arrive(full[slot])


@mimw.jit
def read_part(x_tiles, residual_tiles, slot, total_ptr, inside, rank, units, UNIT: tl.constexpr, CHUNK: tl.constexpr,
              CHUNKS: tl.constexpr, EVEN: tl.constexpr, STORE: tl.constexpr):
    """The part in slot number `slot` as a tuple of fp32 tiles, the residual added and rounded to the type of the sum, which goes
    out where STORE; zeros where `inside` is false."""
    xs = ()
    for chunk in tl.static_range(CHUNKS):
        x = tlx.local_load(x_tiles[slot * CHUNKS + chunk])
        if residual_tiles is not None:     # LLVM adds two bf16 of a register by one instruction where the sum is rounded to bf16
            x = x.to(tl.float32) + tlx.local_load(residual_tiles[slot * CHUNKS + chunk]).to(tl.float32)
        else:
            x = unpacked(x)
        if total_ptr is not None:
            rounded = x.to(tlx.dtype_of(total_ptr))
            x = rounded.to(tl.float32)
            if STORE:
                columns = chunk_at(rank, chunk, units, UNIT, CHUNK, CHUNKS, EVEN) + tl.arange(0, CHUNK)
                tl.store(total_ptr + columns, rounded, mask=None if inside is None else inside[chunk])
        if inside is not None:
            x = tl.where(inside[chunk], x, 0.0)
        xs = xs + (x, )
    return xs


@mimw.jit
def compute(x_tiles, residual_tiles, w_tiles, b_tiles, full, free, weights, numbers, parts, arrived, y_ptr, total_ptr,
            mean_ptr, rstd_ptr, ROWS, units, eps, y_row, total_row, rank, cluster, clusters, me: tl.constexpr, UNIT: tl.constexpr,
            CHUNK: tl.constexpr, CHUNKS: tl.constexpr, CLUSTER: tl.constexpr, STAGES: tl.constexpr, CONSUMERS: tl.constexpr,
            CENTRED: tl.constexpr, KEEP: tl.constexpr, EVEN: tl.constexpr):
    """Every CONSUMERS-th row of this cluster's, from number `me` on; `numbers` says which they are, None: equal shares."""
    BLOCK: tl.constexpr = CHUNK * CHUNKS
    N = CLUSTER * BLOCK if EVEN else units * UNIT
    inside = own_columns(rank, units, UNIT, CHUNK, CHUNKS, EVEN)
    count = BLOCK if EVEN else tl.maximum(tl.minimum(N - rank * BLOCK, BLOCK), 0)
    turn = 0
    row = cluster + me * clusters if numbers is None else row_in(numbers, full, me, 0)
    while row < ROWS:
        step = turn * CONSUMERS + me
        slot = step % STAGES if numbers is not None else taken_slot(full, free, turn, me, STAGES, CONSUMERS)
        total_at = None
        if total_ptr is not None:
            total_at = total_ptr + row.to(tl.int64) * total_row
        xs = read_part(x_tiles, residual_tiles, slot, total_at, inside, rank, units, UNIT, CHUNK, CHUNKS, EVEN, True)
        if KEEP:
            tlx.barrier_arrive(free[slot])
        mean, squares = part_statistics(xs, inside, count, CENTRED)
        if CLUSTER == 1:
            variance = squares / N
        else:
            place = me * 2 + turn % 2
            send_statistics(mean, squares, parts[place], arrived[place], rank, CLUSTER)
            mean, variance = row_statistics(parts[place], arrived[place], turn // 2 % 2, N, BLOCK, CLUSTER)
        scale = tl.rsqrt(variance + eps)
        if mean_ptr is not None:
            tl.store(mean_ptr + row, mean, mask=rank == 0)
        if rstd_ptr is not None:
            tl.store(rstd_ptr + row, scale, mask=rank == 0)
        if w_tiles is not None or b_tiles is not None:
            tlx.barrier_wait(weights[0], 0)  # its first phase is the only one: every later wait returns at once
        if not KEEP:
            xs = read_part(x_tiles, residual_tiles, slot, total_at, inside, rank, units, UNIT, CHUNK, CHUNKS, EVEN, False)
        y_at = y_ptr + row.to(tl.int64) * y_row
        for chunk in tl.static_range(CHUNKS):
            # One fused multiply and add normalises an element, another one scales and shifts it.
            y = xs[chunk] * scale - mean * scale if CENTRED else xs[chunk] * scale
            if w_tiles is not None:
                y *= unpacked(tlx.local_load(w_tiles[chunk]))
            if b_tiles is not None:
                y += unpacked(tlx.local_load(b_tiles[chunk]))
            columns = chunk_at(rank, chunk, units, UNIT, CHUNK, CHUNKS, EVEN) + tl.arange(0, CHUNK)
            tl.store(y_at + columns, y.to(tlx.dtype_of(y_ptr)), mask=None if inside is None else inside[chunk])
        if not KEEP:
            tlx.barrier_arrive(free[slot])
        turn += 1
        step += CONSUMERS
        if numbers is None:
            row += CONSUMERS * clusters
        else:
            row = row_in(numbers, full, step % STAGES, step // STAGES & 1)


@mimw.jit
def norm(x_ptr, residual_ptr, w_ptr, b_ptr, y_ptr, total_ptr, mean_ptr, rstd_ptr, counter_ptr, ROWS, units, x_units, residual_units,
         y_units, total_units, eps, UNIT: tl.constexpr, CHUNK: tl.constexpr, CHUNKS: tl.constexpr, CLUSTER: tl.constexpr,
         STAGES: tl.constexpr, CONSUMERS: tl.constexpr, CENTRED: tl.constexpr, KEEP: tl.constexpr, EVEN: tl.constexpr,
         HEAD: tl.constexpr, BEHIND: tl.constexpr):
    """y = (x - mean) / sqrt(variance + eps) w + b of each row of x + residual; not CENTRED: x / sqrt(mean square + eps) w + b.

    args:      residual, w, b, total, mean, rstd   may be None
               counter  int32, 0 before and after a launch, which one launch at a time may use: rows are drawn from it; None: equal
                        shares
               BEHIND   rows of each cluster that are asked for before w and b: 1 to STAGES, at most ROWS // clusters
               HEAD     rows of each cluster that are not drawn, at most ROWS // clusters; 0: none is drawn
               units, x_units, ...  columns, and the distances of rows, in units of UNIT elements, all of 16 bytes at least
               KEEP  a row stays in registers between its statistics and y, so that its slot is free the earlier
               EVEN  all parts are whole
    """
    rank = tlx.cluster_cta_rank() if CLUSTER > 1 else 0
    cluster, clusters = tl.program_id(0) // CLUSTER, tl.num_programs(0) // CLUSTER

    x_tiles = tiles_for(x_ptr, STAGES * CHUNKS, CHUNK)
    residual_tiles = tiles_for(residual_ptr, STAGES * CHUNKS, CHUNK)
    w_tiles, b_tiles = tiles_for(w_ptr, CHUNKS, CHUNK), tiles_for(b_ptr, CHUNKS, CHUNK)
    full, free, weights = tlx.alloc_barriers(STAGES), tlx.alloc_barriers(STAGES), tlx.alloc_barriers(1)
    order, drawn, taken, numbers = None, None, None, None
    if HEAD > 0:
        order, drawn, taken = tlx.local_alloc((1, ), tl.int32, 1), tlx.alloc_barriers(1), tlx.alloc_barriers(1, CLUSTER)
        numbers = tlx.local_alloc((1, ), tl.int32, STAGES)
    parts, arrived = places_to_tell(2, CONSUMERS, CLUSTER)

    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=112 if CONSUMERS > 1 else None, replicate=CONSUMERS):  # consumer
            me: tl.constexpr = tlx.async_task_replica_id()
            compute(x_tiles, residual_tiles, w_tiles, b_tiles, full, free, weights, numbers, parts, arrived, y_ptr, total_ptr,
                    mean_ptr, rstd_ptr, ROWS, units, eps, y_units * UNIT, total_units * UNIT, rank, cluster, clusters, me, UNIT,
                    CHUNK, CHUNKS, CLUSTER, STAGES, CONSUMERS, CENTRED, KEEP, EVEN)
        with tlx.async_task(num_warps=1, num_regs=24 if CONSUMERS > 1 else None):  # producer
            load(x_ptr, residual_ptr, w_ptr, b_ptr, x_tiles, residual_tiles, w_tiles, b_tiles, full, free, weights, order, drawn,
                 taken, numbers, ROWS, units, x_units * UNIT, residual_units * UNIT, rank, cluster, clusters, UNIT, CHUNK, CHUNKS,
                 CLUSTER, STAGES, CONSUMERS, EVEN, HEAD, BEHIND)
        if HEAD > 0:
            with tlx.async_task(num_warps=1, num_regs=24 if CONSUMERS > 1 else None):  # scheduler
                draw_rows(order, drawn, taken, counter_ptr, ROWS, rank, clusters, HEAD, CLUSTER)
