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

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..norm.exchange import exchange_of, received_pairs, send_pair
from ..norm.ring import Matrix, bytes_of, chunk_at, cluster_rows, part_of, ring_of, start_part, taken_slot, tiles_for
from ..softmax.sums import LN2, LOG2E, finite, row_sum
from .direct import loss_of, loss_with, scale_of
from .softcap import capped, times_slope


@tle.struct
class Outputs:
    """Losses and logarithms of the sums, and the gradient of the logits, whose pointer may be None."""
    losses: tl.tensor
    lses: tl.tensor
    dx: Matrix


@tle.struct
class Body:
    """The whole 16 bytes of a row: where they begin, how many numbers stand in front of them, and how many such units they are."""
    start: tl.tensor
    head: Any
    units: Any


@tle.struct
class Edges:
    """The columns of a row's edges, which of them are in use, and their logits, in units of log2(e)."""
    columns: tl.tensor
    used: tl.tensor
    x: tl.tensor


@tle.struct
class Gradient:
    """Numbers that make dx of a row: the largest exponent, the factor of the powers, what is taken off all columns, what is
    taken off the target's, and the bound of logits or None."""
    largest: tl.tensor
    factor: tl.tensor
    spread: tl.tensor
    hit: tl.tensor
    cap: Any


@mimw.jit
def body_of(row, x, N, UNIT: tl.constexpr, EDGES: tl.constexpr):
    """The body of a row."""
    begin = row.to(tl.int64) * x.step
    start = tl.cdiv(begin, UNIT) * UNIT
    head = (start - begin).to(tl.int32) if EDGES else 0
    return Body(start, head, (N - head) // UNIT)


@mimw.jit
def load(x, tiles, N, rows, ring, part, EDGES: tl.constexpr):
    """This CTA's parts of its rows, in order."""
    step = 0
    for row in range(rows.cluster, rows.count, rows.clusters):
        slot = step % ring.STAGES
        body = body_of(row, x, N, part.UNIT, EDGES)
        tlx.barrier_wait(ring.free[slot], (step // ring.STAGES & 1) ^ 1)
        tlx.barrier_expect_bytes(ring.full[slot], part.CHUNK * part.CHUNKS * bytes_of((x.pointer, )))
        start_part(part.replace(units=body.units), x.pointer + body.start, tiles, slot * part.CHUNKS, ring.full[slot])
        step += 1


@mimw.jit
def edges_of(x, row_at, body, loss, rank, UNIT: tl.constexpr):
    """The edges of a row, 2 UNIT places, of which some are in use: in the first CTA, in no other one."""
    places = tl.arange(0, 2 * UNIT)
    end = body.units * UNIT
    columns, used = tl.where(places < body.head, places, places + end), (places < loss.N - end) & (rank == 0)
    found = capped(tl.load(x.pointer + row_at + columns, mask=used, other=float("-inf")).to(tl.float32), loss.cap) * LOG2E
    return Edges(columns, used, found if loss.cap is None else tl.where(used, found, float("-inf")))


@mimw.jit
def chunk_of(tiles, slot, cap, chunk: tl.constexpr, CHUNKS: tl.constexpr):
    """A chunk of the part in slot number `slot`, in units of log2(e)."""
    return capped(tlx.local_load(tiles[slot * CHUNKS + chunk]).to(tl.float32), cap) * LOG2E


@mimw.jit
def own_places(at, part, chunk, places):
    """Mask of the places of a chunk that begins at column `at` which belong to no other one: all, or those behind what it was moved
    by; None for all."""
    return None if part.EVEN else places >= (part.rank * part.CHUNKS + chunk) * part.CHUNK - at


@mimw.jit
def part_sums(tiles, slot, edge, part, cap, SMOOTH: tl.constexpr):
    """(largest, sum of 2^(x - largest), sum of x) of this CTA's part of a row, and of the logits of its edges."""
    CHUNKS: tl.constexpr = part.CHUNKS
    highest = tlx.local_load(tiles[slot * CHUNKS]).to(tl.float32)      # what a moved chunk has twice does not change a maximum
    for chunk in tl.static_range(1, CHUNKS):
        highest = tl.maximum(highest, tlx.local_load(tiles[slot * CHUNKS + chunk]).to(tl.float32))
    largest = capped(tl.max(highest), cap) * LOG2E
    if edge is not None:
        largest = tl.maximum(largest, tl.max(edge))
    totals, others = tl.zeros((part.CHUNK, ), tl.float32), tl.zeros((part.CHUNK, ), tl.float32)
    for chunk in tl.static_range(CHUNKS):
        inside = own_places(chunk_at(part, chunk), part, chunk, tl.arange(0, part.CHUNK))
        x = chunk_of(tiles, slot, cap, chunk, CHUNKS)
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
def gradient_of(x, columns, target, gradient, here):
    """dx of some columns; `here` says whether the target may be among them, which most chunks need not look for."""
    dx = tl.exp2(x - finite(gradient.largest)) * gradient.factor - gradient.spread
    if here:
        dx = tl.where(columns == target, dx - gradient.hit, dx)
    return times_slope(dx, x * LN2, gradient.cap)


@mimw.jit
def write_gradient(dx, row, tiles, slot, gradient, place_of_target, places, part):
    """dx of a part."""
    dx_at = dx.pointer + tl.cdiv(row.to(tl.int64) * dx.step, part.UNIT) * part.UNIT
    for chunk in tl.static_range(part.CHUNKS):
        at = chunk_at(part, chunk)
        x = chunk_of(tiles, slot, gradient.cap, chunk, part.CHUNKS)
        target_at = (place_of_target - at).to(tl.int32)
        here = (target_at >= 0) & (target_at < part.CHUNK)
        result = gradient_of(x, places, target_at, gradient, here)
        inside = own_places(at, part, chunk, places)
        tl.store(dx_at + at + places, result.to(tlx.dtype_of(dx_at)), mask=inside)


@mimw.jit
def compute(x, targets, tiles, out, loss, rows, part, ring, exchange, me: tl.constexpr, EDGES: tl.constexpr):
    """Every CONSUMERS-th row, from row number `me` of this cluster's on. A part is read three times, for its maximum, its sum and
    its gradient: 64 KB of it are no matter for shared memory, and too much for registers."""
    N = loss.N
    BLOCK: tl.constexpr = part.CHUNK * part.CHUNKS
    first, places = part.rank * BLOCK, tl.arange(0, part.CHUNK)
    if out.dx.pointer is not None:
        scale = scale_of(loss)
    turn, begin = 0, rows.cluster + me * rows.clusters
    coming = tl.load(targets + begin, mask=begin < rows.count, other=0)
    stride = ring.CONSUMERS * rows.clusters
    for row in range(begin, rows.count, stride):
        target = coming.to(tl.int64)
        coming = tl.load(targets + row + stride, mask=row + stride < rows.count, other=0)
        body = body_of(row, x, N, part.UNIT, EDGES)
        own = part.replace(units=body.units)
        known = (target >= 0) & (target < N)
        place_of = target - body.head
        in_body = (place_of >= 0) & (place_of < body.units * part.UNIT)
        mine = known & ((in_body & (place_of >= first) & (place_of < first + BLOCK)) | ((in_body == 0) & (part.rank == 0)))
        row_at = row.to(tl.int64) * x.step
        own_x = capped(tl.load(x.pointer + row_at + target, mask=mine, other=0).to(tl.float32), loss.cap) * LOG2E
        edge = None
        if EDGES:
            edges = edges_of(x, row_at, body, loss, part.rank, part.UNIT)
            edge = edges.x
        slot = taken_slot(ring, turn, me)
        largest, total, other = part_sums(tiles, slot, edge, own, loss.cap, loss.SMOOTH)
        if part.CLUSTER > 1:
            largest, total = row_sum(exchange.at(me * 2 + turn % 2), turn // 2 % 2, largest, total)
            if loss.SMOOTH:
                place = (ring.CONSUMERS + me) * 2 + turn % 2
                send_pair(exchange.at(place), other, other)
                others, _ = received_pairs(exchange.at(place), turn // 2 % 2)
                other = tl.sum(others)
        lse = (finite(largest) + tl.log2(total)) * LN2
        if out.dx.pointer is not None:
            row_scale = tl.where(target == loss.ignored, 0.0, scale)
            factor = (1 + 2 * loss.z * lse) / total * row_scale
            gradient = Gradient(largest, factor, loss.smoothing / N * row_scale, (1 - loss.smoothing) * row_scale, loss.cap)
            write_gradient(out.dx, row, tiles, slot, gradient, place_of, places, own)
            if EDGES:
                dx = gradient_of(edge, edges.columns, target.to(tl.int32), gradient, True)
                tl.store(out.dx.row(row) + edges.columns, dx.to(tlx.dtype_of(out.dx.pointer)), mask=edges.used)
        tlx.barrier_arrive(ring.free[slot])
        found = tl.where(known, loss_of(loss, own_x, other, lse), float("nan"))
        tl.store(out.losses + row, tl.where(target == loss.ignored, 0.0, found), mask=mine | ((part.rank == 0) & (known == 0)))
        tl.store(out.lses + row, lse, mask=part.rank == 0)
        turn += 1


@mimw.jit
def cross_entropy(x_ptr, targets_ptr, losses_ptr, lses_ptr, dx_ptr, count_ptr, shape, numbers, FORM: tl.constexpr,
                  SMOOTH: tl.constexpr, EDGES: tl.constexpr, cap=None):
    """losses and lses, fp32, and dx, which may be None, or x itself.

    args:      shape, numbers  as in direct.py
               FORM    the parts of rows, and the ring (../norm/ring.py)
               SMOOTH  something is spread over all columns
               EDGES   rows may begin or end between multiples of 16 bytes
    """
    rank = tlx.cluster_cta_rank() if FORM.CLUSTER > 1 else 0
    rows, part = cluster_rows(shape.rows, FORM.CLUSTER), part_of(rank, None, FORM)
    x, tiles = Matrix(x_ptr, shape.x_row), tiles_for(x_ptr, FORM.STAGES * FORM.CHUNKS, FORM.CHUNK)
    ring = ring_of(FORM.STAGES, FORM.CONSUMERS)
    exchange = exchange_of(4 * FORM.CONSUMERS if SMOOTH else 2 * FORM.CONSUMERS, rank, FORM.CLUSTER)
    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=112, replicate=FORM.CONSUMERS):  # consumer
            me: tl.constexpr = tlx.async_task_replica_id()
            out = Outputs(losses_ptr, lses_ptr, Matrix(dx_ptr, shape.dx_row))
            loss = loss_with(numbers, count_ptr, shape.N, cap, SMOOTH)
            compute(x, targets_ptr, tiles, out, loss, rows, part, ring, exchange, me, EDGES)
        with tlx.async_task(num_warps=1, num_regs=24):  # producer
            load(x, tiles, shape.N, rows, ring, part, EDGES)
