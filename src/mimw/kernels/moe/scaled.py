"""The products of a mixture of experts in fp8, with a scale for each 1 x 128 of rows and each 128 x 128 of the experts' weights.

Input: descriptors of A, its scales, all experts' weights and C, a pointer to the weights' scales, what moe_align says of the
blocks, and sizes. Output: C is written. For example:

    _, grid, args, meta = scaled_product(a, scale_a, b, scale_b, c, experts, total, n, programs, bm, gated=True)
    scaled_expert_gemm[grid](*args, **meta)

Blocks, tiles and GATED are those of kernel.py; sums leave the tensor cores every 128 of K, two chunks at a time, as in
block_scaled_gemm. A tile has 128 weights in two halves of 64 with a scale each: gate and up, or one matrix' rows, which
then share one. A consumer has 64 rows. With HALF = 128 tiles are wide: 256 weights in two halves of 128, each with scales of its
own, a quarter fewer bytes out of L2; a consumer then has one product at a time, while the other one adds.

With a `counter` tiles are stolen (stolen.py): a program that begins late, since another launch has had its multiprocessor, holds up
nobody.
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..consumers import consumer, consumers
from ..gemm.epilogue import activated
from ..gemm.product import columns
from ..gemm.sources import OneMatrix
from ..stolen import first_tile, load_stolen, next_tile, order_pipe
from .blocks import BlockTiles, ExpertOperands, PlaceInBlock, blocks, copy_weights

BLOCK = tl.constexpr(128)       # of K, and of the weights' rows, that share a scale
PIECE = tl.constexpr(64)        # columns that are stored at a time


@tle.struct
class Loader:
    """Tiles of rows, their scales and the expert's weights along K."""
    inputs: tle.pipe_writer
    operands: ExpertOperands
    scales_desc: tl.tensor_descriptor
    source: OneMatrix

    @mimw.jit
    def load(self, chunk, at):
        BM: tl.constexpr = self.source.tiles.BM
        a_desc, scales_desc = self.operands.a_desc, self.scales_desc
        place = PlaceInBlock(at.m, at.n, tl.load(self.operands.experts + at.m // BM), None)
        for step in range(tl.cdiv(self.source.problem.K, BLOCK)):
            slot = self.inputs.acquire(chunk)
            copy_weights(self.operands, slot, place, step, BLOCK)
            tle.gpu.copy(a_desc, tlx.local_slice(slot.a, [0, 0], [BM, BLOCK]), a_desc.block_shape, [at.m, step * BLOCK])
            tle.gpu.copy(scales_desc, tlx.local_slice(slot.scales, [0], [BM]), scales_desc.block_shape, [step, at.m])
            self.inputs.commit(chunk)
            chunk += 1
        return chunk


@tle.struct
class Weights:
    """The weights' scales, the steps between them (nouns.py), and the expert of each block. GATED: a tile's halves are the gate and
    up, else two halves of HALF weights."""
    scales: tl.tensor
    steps: Any
    experts: tl.tensor
    GATED: tl.constexpr
    HALF: tl.constexpr


@tle.struct
class ScalesAt:
    """The first scales of a tile's halves, and the way to those of the next chunk."""
    left: tl.tensor
    right: tl.tensor
    next_step: Any


@tle.struct
class Output:
    """C by way of staging tiles, of which ROWS rows are stored."""
    c_desc: tl.tensor_descriptor
    staging: tlx.buffered_tensor
    STAGING: tl.constexpr
    ROWS: tl.constexpr


@mimw.jit
def part_product(slot, row: tl.constexpr):
    """A[row :] B^T for 64 rows of one chunk, started and not waited for; and the scales of the rows."""
    part = tlx.async_dot(tlx.local_slice(slot.a, [row, 0], [64, BLOCK]), tlx.local_trans(slot.b))
    return part, tlx.local_load(tlx.local_slice(slot.scales, [row], [64]))


@mimw.jit
def plus(left, right, part, scales, of_left, of_right):
    """The sums of both halves with those of a chunk, scaled."""
    left += columns(part, 0, 2) * (scales * of_left)[:, None]
    right += columns(part, 1, 2) * (scales * of_right)[:, None]
    return left, right


@mimw.jit
def multiply(inputs, scales_at, first, steps, row: tl.constexpr):
    """64 rows from row `row` of the tiles on, times both halves of the weights, scaled: `steps` chunks from number `first` on. The
    first one's sums of two chunks are scaled while the second one is multiplied."""
    of_left, of_right = scales_at.left, scales_at.right
    left, right = tl.zeros((64, PIECE), tl.float32), tl.zeros((64, PIECE), tl.float32)
    for pair in range(steps // 2):
        chunk, at = first + 2 * pair, 2 * pair * scales_at.next_step
        l_scale, r_scale = tl.load(of_left + at), tl.load(of_right + at)
        l_other, r_other = tl.load(of_left + at + scales_at.next_step), tl.load(of_right + at + scales_at.next_step)
        part, scales = part_product(inputs.wait(chunk).slot, row)
        more, others = part_product(inputs.wait(chunk + 1).slot, row)
        part = tlx.async_dot_wait(1, part)
        inputs.release(chunk)
        left, right = plus(left, right, part, scales, l_scale, r_scale)
        left, right = tlx.async_dot_wait(1, left), tlx.async_dot_wait(1, right)     # the sums are done here, beside the product
        more = tlx.async_dot_wait(0, more)
        inputs.release(chunk + 1)
        left, right = plus(left, right, more, others, l_other, r_other)
    if steps % 2 != 0:
        at = (steps - 1) * scales_at.next_step
        l_scale, r_scale = tl.load(of_left + at), tl.load(of_right + at)
        part, scales = part_product(inputs.wait(first + steps - 1).slot, row)
        part = tlx.async_dot_wait(0, part)
        inputs.release(first + steps - 1)
        left, right = plus(left, right, part, scales, l_scale, r_scale)
    return left, right


@mimw.jit
def half_product(slot, row: tl.constexpr, first: tl.constexpr, registers):
    """A[row :] times 128 weights from number `first` of the tile on, for 64 rows of one chunk, started and not waited for, in the
    `registers` of a product that has been added."""
    weights = tlx.local_trans(tlx.local_slice(slot.b, [first, 0], [BLOCK, BLOCK]))
    return tlx.async_dot(tlx.local_slice(slot.a, [row, 0], [64, BLOCK]), weights, registers=registers)


@mimw.jit
def multiply_wide(inputs, scales_at, first, steps, row: tl.constexpr):
    """`multiply` for halves of 128 weights, which have the registers of a product in turn; their scales are read a chunk ahead."""
    of_left, of_right = scales_at.left, scales_at.right
    left, right = tl.zeros((64, BLOCK), tl.float32), tl.zeros((64, BLOCK), tl.float32)
    part = tl.zeros((64, BLOCK), tl.float32)
    l_scale, r_scale = tl.load(of_left), tl.load(of_right)
    for step in range(steps):
        slot = inputs.wait(first + step).slot
        part = half_product(slot, row, 0, part)
        scales = tlx.local_load(tlx.local_slice(slot.scales, [row], [64]))
        tlx.fence("async_shared")               # of these reads and the next copy, here beside the product, not at the release
        part = tlx.async_dot_wait(0, part)
        left += part * (scales * l_scale)[:, None]
        left = tlx.async_dot_wait(0, left)      # the sum is done here: the next product takes its registers
        part = half_product(slot, row, BLOCK, part)
        at = min(step + 1, steps - 1) * scales_at.next_step
        l_next, r_next = tl.load(of_left + at), tl.load(of_right + at)
        part = tlx.async_dot_wait(0, part)
        inputs.release(first + step)
        right += part * (scales * r_scale)[:, None]
        right = tlx.async_dot_wait(0, right)
        l_scale, r_scale = l_next, r_next
    return left, right


@mimw.jit
def scales_for(weights, source, at):
    """The scales of an output tile's weights."""
    expert = tl.load(weights.experts + at.m // source.tiles.BM).to(tl.int64)
    left = weights.scales + expert * weights.steps.expert + at.n // BLOCK * weights.steps.row
    right = left
    if weights.GATED:
        right += source.problem.N // BLOCK * weights.steps.row
    elif weights.HALF == BLOCK:
        right += tl.where(at.n + BLOCK < source.problem.N, weights.steps.row, 0)
    return ScalesAt(left, right, weights.steps.chunk)


@mimw.jit
def store(out, number: tl.constexpr, sums, m, n):
    """Write rows of 64 columns; they wait for the store that last used the staging tile."""
    tlx.async_descriptor_store_wait(out.STAGING - 1)
    tlx.local_store(out.staging[number], sums.to(tlx.dtype_of(out.c_desc)))
    tlx.fence("async_shared")
    tlx.async_descriptor_store(out.c_desc, tlx.local_slice(out.staging[number], [0, 0], [out.ROWS, PIECE]), [m, n])


@mimw.jit
def store_halves(out, left, right, at, me: tl.constexpr, GATED: tl.constexpr):
    """Write consumer `me`'s rows of both halves, or of silu(left) right, from place `at` of C on."""
    STAGING: tl.constexpr = out.STAGING
    PIECES: tl.constexpr = left.shape[1] // PIECE
    if GATED:
        for piece in tl.static_range(PIECES):
            sums = activated(columns(left, piece, PIECES), "silu") * columns(right, piece, PIECES)
            store(out, STAGING * me + piece % STAGING, sums, at.m + 64 * me, at.n + piece * PIECE)
    else:
        for piece in tl.static_range(PIECES):
            store(out, STAGING * me + piece % STAGING, columns(left, piece, PIECES), at.m + 64 * me, at.n + piece * PIECE)
        for piece in tl.static_range(PIECES):
            store(out, STAGING * me + (PIECES + piece) % STAGING, columns(right, piece, PIECES), at.m + 64 * me,
                  at.n + left.shape[1] + piece * PIECE)


@mimw.jit
def compute(inputs, order, source, weights, out, me: tl.constexpr):
    """Consumer `me`'s 64 rows of each output tile of this program."""
    steps = source.steps()
    turn, chunk = 0, 0
    tile = first_tile(order)
    while tile < source.count():
        at = source.at(tile)
        scales_at = scales_for(weights, source, at)
        if weights.HALF == BLOCK:
            left, right = multiply_wide(inputs, scales_at, chunk, steps, 64 * me)
        else:
            left, right = multiply(inputs, scales_at, chunk, steps, 64 * me)
        store_halves(out, left, right, at, me, weights.GATED)
        chunk += steps
        turn += 1
        tile = next_tile(tile, order, turn)
    tlx.async_descriptor_store_wait(0)


@mimw.jit
def scaled_expert_gemm(a_desc, scales_desc, b_desc, c_desc, scale_b, steps, experts_ptr, total_ptr, counter, N, K,
                       FORM: tl.constexpr):
    """C[rows, N] = A B[expert]^T of rows in blocks, or, GATED, silu(A gate^T) (A up^T) of the halves of B[expert], with B as
    (experts, N or 2 N, K), A's scales as (cdiv(K, 128), rows), and B's as `steps` say. `counter` is an int32, 0 before and after a
    launch, or None."""
    BM: tl.constexpr = FORM.BM
    STAGES: tl.constexpr = FORM.STAGES
    GATED: tl.constexpr = FORM.GATED
    HALF: tl.constexpr = FORM.HALF
    TALL: tl.constexpr = max(BM, 64)
    WIDTH: tl.constexpr = HALF if GATED else 2 * HALF
    CONSUMERS: tl.constexpr = TALL // 64
    STAGING: tl.constexpr = 1 if GATED else 2
    a_tiles = tle.gpu.alloc([STAGES, TALL, BLOCK], tlx.dtype_of(a_desc))
    scales = tle.gpu.alloc([STAGES, TALL], tl.float32)
    for stage in tl.static_range(STAGES):
        for row in tl.static_range(BM, TALL, BM):       # rows that nothing is loaded into
            tlx.local_store(tlx.local_slice(a_tiles[stage], [row, 0], [BM, BLOCK]), tl.zeros((BM, BLOCK), tlx.dtype_of(a_desc)))
            tlx.local_store(tlx.local_slice(scales[stage], [row], [BM]), tl.zeros((BM, ), tl.float32))
    if BM < TALL:
        tlx.fence("async_shared")
    inputs = tle.pipe(capacity=STAGES, readers=consumers(CONSUMERS), name="inputs", a=a_tiles, scales=scales,
                      b=tle.gpu.alloc([STAGES, 2 * HALF, BLOCK], tlx.dtype_of(b_desc)))
    order = order_pipe(counter, CONSUMERS)
    staging = tlx.local_alloc((64, PIECE), tlx.dtype_of(c_desc), STAGING * CONSUMERS)
    tiles, operands = BlockTiles(BM, WIDTH, FORM.GROUP_M, BLOCK), ExpertOperands(a_desc, b_desc, experts_ptr, N, GATED)
    weights = Weights(scale_b, steps, experts_ptr, GATED, HALF)
    tl.extra.cuda.gdc_wait()                    # for all that the launches ahead have written
    tl.extra.cuda.gdc_launch_dependents()

    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=240, replicate=CONSUMERS):  # consumer
            me: tl.constexpr = tlx.async_task_replica_id()
            received = None if order is None else order.reader(consumer(me))
            out = Output(c_desc, staging, STAGING, min(BM, 64))
            compute(inputs.reader(consumer(me)), received, blocks(total_ptr, N, K, tiles), weights, out, me)
        with tlx.async_task(num_warps=1, num_regs=24):  # producer
            source, sent = blocks(total_ptr, N, K, tiles), None if order is None else order.writer()
            load_stolen(Loader(inputs.writer(), operands, scales_desc, source), source, sent, counter)
