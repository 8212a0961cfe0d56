"""Cross entropy of many long rows on Hopper, with the gradient of the logits in the same launch: each number is read once and,
where there is a gradient, written once. One warp keeps a ring of row parts full by bulk copies, warpgroups take the rows in turn.

Input: x [ROWS, N], targets [ROWS]. Output: losses and lses [ROWS], and dx [ROWS, N], which may be x itself. For example:

    kernel, grid, args, meta = arguments(x, targets, losses, lses, dx=x)
    cross_entropy[grid](*args, **meta)

The formulas are those of direct.py, roles, ring and parts of rows those of ../softmax/kernel.py. Bulk copies move 16 bytes and more
from such addresses, and a row of 50257 begins and ends anywhere: the few numbers in front of the first whole 16 bytes and behind
the last ones, its edges, are loaded and stored one by one, by the first CTA. A CTA writes dx only where it has read x itself, so
the logits may go while other CTAs still work at the same row. The target's logit is read from global memory by the CTA whose part
has it, before any of its threads writes: reductions over the whole CTA lie between.
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx

from ..norm.ring import bytes_of, chunk_at, places_to_tell, start_part, taken_slot, tiles_for
from ..norm.statistics import send_statistics
from ..softmax.sums import LN2, LOG2E, finite, row_sum
from .direct import loss_of, scale_of


@mimw.jit
def body_of(row, x_row, N, UNIT: tl.constexpr, EDGES: tl.constexpr):
    """(where the first whole 16 bytes of a row begin, numbers in front of them, how many such units there are)."""
    begin = row.to(tl.int64) * x_row
    start = tl.cdiv(begin, UNIT) * UNIT
    head = (start - begin).to(tl.int32) if EDGES else 0
    return start, head, (N - head) // UNIT


@mimw.jit
def load(x_ptr, tiles, full, free, ROWS, N, x_row, rank, cluster, clusters, UNIT: tl.constexpr, CHUNK: tl.constexpr,
         CHUNKS: tl.constexpr, STAGES: tl.constexpr, EVEN: tl.constexpr, EDGES: tl.constexpr):
    """This CTA's parts of its rows, in order."""
    step = 0
    for row in range(cluster, ROWS, clusters):
        slot = step % STAGES
        start, _, units = body_of(row, x_row, N, UNIT, EDGES)
        tlx.barrier_wait(free[slot], (step // STAGES & 1) ^ 1)
        tlx.barrier_expect_bytes(full[slot], CHUNK * CHUNKS * bytes_of((x_ptr, )))
        start_part(x_ptr + start, tiles, slot * CHUNKS, full[slot], rank, units, UNIT, CHUNK, CHUNKS, EVEN)
        step += 1


@mimw.jit
def edge_columns(head, units, N, rank, UNIT: tl.constexpr):
    """(columns of a row's edges, which of these 2 UNIT places are in use): in the first CTA, in no other one."""
    places = tl.arange(0, 2 * UNIT)
    body = units * UNIT
    return tl.where(places < head, places, places + body), (places < N - body) & (rank == 0)


@mimw.jit
def chunk_of(tiles, slot, chunk: tl.constexpr, CHUNKS: tl.constexpr):
    """A chunk of the part in slot number `slot`, in units of log2(e)."""
    return tlx.local_load(tiles[slot * CHUNKS + chunk]).to(tl.float32) * LOG2E


@mimw.jit
def own_places(at, rank, chunk, places, CHUNK: tl.constexpr, CHUNKS: tl.constexpr, EVEN: tl.constexpr):
    """Which places of a chunk that begins at column `at` belong to no other one: all, or those behind what it was moved by; None
    for all."""
    return None if EVEN else places >= (rank * CHUNKS + chunk) * CHUNK - at


@mimw.jit
def part_sums(tiles, slot, edge, rank, units, UNIT: tl.constexpr, CHUNK: tl.constexpr, CHUNKS: tl.constexpr, SMOOTH: tl.constexpr,
              EVEN: tl.constexpr):
    """(largest, sum of 2^(x - largest), sum of x) of this CTA's part of a row, and of its edges."""
    highest = tlx.local_load(tiles[slot * CHUNKS]).to(tl.float32)      # what a moved chunk has twice does not change a maximum
    for chunk in tl.static_range(1, CHUNKS):
        highest = tl.maximum(highest, tlx.local_load(tiles[slot * CHUNKS + chunk]).to(tl.float32))
    largest = tl.max(highest) * LOG2E
    if edge is not None:
        largest = tl.maximum(largest, tl.max(edge))
    totals, others = tl.zeros((CHUNK, ), tl.float32), tl.zeros((CHUNK, ), tl.float32)
    for chunk in tl.static_range(CHUNKS):
        at = chunk_at(rank, chunk, units, UNIT, CHUNK, CHUNKS, EVEN)
        inside = own_places(at, rank, chunk, tl.arange(0, CHUNK), CHUNK, CHUNKS, EVEN)
        x = chunk_of(tiles, slot, chunk, CHUNKS)
        power = tl.exp2(x - finite(largest))
        totals += power if inside is None else tl.where(inside, power, 0.0)
        if SMOOTH:
            others += x if inside is None else tl.where(inside, x, 0.0)
    total, other = tl.sum(totals), 0.0
    if edge is not None:
        total += tl.sum(tl.exp2(edge - finite(largest)))
    if SMOOTH:
        other = tl.sum(others)
        if edge is not None:
            other += tl.sum(tl.where(edge == float("-inf"), 0.0, edge))
    return largest, total, other


@mimw.jit
def gradient_of(x, columns, target, factor, largest, spread, hit, here):
    """dx of some columns; `here` says whether the target may be among them, which most chunks need not look for."""
    dx = tl.exp2(x - finite(largest)) * factor - spread
    if here:
        dx = tl.where(columns == target, dx - hit, dx)
    return dx


@mimw.jit
def compute(tiles, full, free, parts, arrived, x_ptr, targets_ptr, losses_ptr, lses_ptr, dx_ptr, count_ptr, ROWS, N, x_row,
            dx_row, scale, smoothing, z, ignored, rank, cluster, clusters, me: tl.constexpr, UNIT: tl.constexpr,
            CHUNK: tl.constexpr, CHUNKS: tl.constexpr, CLUSTER: tl.constexpr, STAGES: tl.constexpr, CONSUMERS: tl.constexpr,
            SMOOTH: tl.constexpr, EVEN: tl.constexpr, EDGES: tl.constexpr):
    """Every CONSUMERS-th row, from row number `me` of this cluster's on. A part is read three times, for its maximum, its sum and
    its gradient: 64 KB of it are no matter for shared memory, and too much for registers."""
    first, places = rank * (CHUNK * CHUNKS), tl.arange(0, CHUNK)
    if dx_ptr is not None:
        scale = scale_of(scale, count_ptr)
    turn, begin = 0, cluster + me * clusters
    coming = tl.load(targets_ptr + begin, mask=begin < ROWS, other=0)
    for row in range(begin, ROWS, CONSUMERS * clusters):
        target = coming.to(tl.int64)
        coming = tl.load(targets_ptr + row + CONSUMERS * clusters, mask=row + CONSUMERS * clusters < ROWS, other=0)
        _, head, units = body_of(row, x_row, N, UNIT, EDGES)
        known = (target >= 0) & (target < N)
        place_of = target - head
        in_body = (place_of >= 0) & (place_of < units * UNIT)
        mine = known & ((in_body & (place_of >= first) & (place_of < first + CHUNK * CHUNKS)) | ((in_body == 0) & (rank == 0)))
        row_at = row.to(tl.int64) * x_row
        own_x = tl.load(x_ptr + row_at + target, mask=mine, other=0).to(tl.float32) * LOG2E
        edge = None
        if EDGES:
            columns, used = edge_columns(head, units, N, rank, UNIT)
            edge = tl.load(x_ptr + row_at + columns, mask=used, other=float("-inf")).to(tl.float32) * LOG2E
        slot = taken_slot(full, free, turn, me, STAGES, CONSUMERS)
        largest, total, other = part_sums(tiles, slot, edge, rank, units, UNIT, CHUNK, CHUNKS, SMOOTH, EVEN)
        if CLUSTER > 1:
            place = me * 2 + turn % 2
            largest, total = row_sum(largest, total, parts[place], arrived[place], turn // 2 % 2, rank, CLUSTER)
            if SMOOTH:
                place = (CONSUMERS + me) * 2 + turn % 2
                send_statistics(other, other, parts[place], arrived[place], rank, CLUSTER)
                tlx.barrier_wait(arrived[place], turn // 2 % 2)
                others, _ = tlx.local_load(parts[place]).split()
                other = tl.sum(others)
        lse = (finite(largest) + tl.log2(total)) * LN2
        if dx_ptr is not None:
            row_scale = tl.where(target == ignored, 0.0, scale)
            factor = (1 + 2 * z * lse) / total * row_scale
            spread, hit = smoothing / N * row_scale, (1 - smoothing) * row_scale
            dx_at = dx_ptr + tl.cdiv(row.to(tl.int64) * dx_row, UNIT) * UNIT
            for chunk in tl.static_range(CHUNKS):
                at = chunk_at(rank, chunk, units, UNIT, CHUNK, CHUNKS, EVEN)
                x = chunk_of(tiles, slot, chunk, CHUNKS)
                target_at = (place_of - at).to(tl.int32)
                here = (target_at >= 0) & (target_at < CHUNK)
                dx = gradient_of(x, places, target_at, factor, largest, spread, hit, here)
                inside = own_places(at, rank, chunk, places, CHUNK, CHUNKS, EVEN)
                tl.store(dx_at + at + places, dx.to(tlx.dtype_of(dx_ptr)), mask=inside)
            if EDGES:
                dx = gradient_of(edge, columns, target.to(tl.int32), factor, largest, spread, hit, True)
                tl.store(dx_ptr + row.to(tl.int64) * dx_row + columns, dx.to(tlx.dtype_of(dx_ptr)), mask=used)
        tlx.barrier_arrive(free[slot])
        loss = tl.where(known, loss_of(own_x, other, lse, N, smoothing, z, SMOOTH), float("nan"))
        tl.store(losses_ptr + row, tl.where(target == ignored, 0.0, loss), mask=mine | ((rank == 0) & (known == 0)))
        tl.store(lses_ptr + row, lse, mask=rank == 0)
        turn += 1


@mimw.jit
def cross_entropy(x_ptr, targets_ptr, losses_ptr, lses_ptr, dx_ptr, count_ptr, ROWS, N, x_row, dx_row, scale, smoothing, z, ignored,
                  UNIT: tl.constexpr, CHUNK: tl.constexpr, CHUNKS: tl.constexpr, CLUSTER: tl.constexpr, STAGES: tl.constexpr,
                  CONSUMERS: tl.constexpr, SMOOTH: tl.constexpr, EVEN: tl.constexpr, EDGES: tl.constexpr):
    """losses and lses, fp32, and dx, which may be None, or x itself.

    args:      UNIT   elements of 16 bytes of x
               EVEN   all parts are whole
               EDGES  rows may begin or end between multiples of 16 bytes
    """
    rank = tlx.cluster_cta_rank() if CLUSTER > 1 else 0
    cluster, clusters = tl.program_id(0) // CLUSTER, tl.num_programs(0) // CLUSTER
    tiles = tiles_for(x_ptr, STAGES * CHUNKS, CHUNK)
    full, free = tlx.alloc_barriers(STAGES), tlx.alloc_barriers(STAGES)
    parts, arrived = places_to_tell(2, 2 * CONSUMERS if SMOOTH else CONSUMERS, CLUSTER)
    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=112, replicate=CONSUMERS):  # consumer
            me: tl.constexpr = tlx.async_task_replica_id()
            compute(tiles, full, free, parts, arrived, x_ptr, targets_ptr, losses_ptr, lses_ptr, dx_ptr, count_ptr, ROWS, N,
                    x_row, dx_row, scale, smoothing, z, ignored, rank, cluster, clusters, me, UNIT, CHUNK, CHUNKS, CLUSTER, STAGES,
                    CONSUMERS, SMOOTH, EVEN, EDGES)
        with tlx.async_task(num_warps=1, num_regs=24):  # producer
            load(x_ptr, tiles, full, free, ROWS, N, x_row, rank, cluster, clusters, UNIT, CHUNK, CHUNKS, STAGES, EVEN, EDGES)
