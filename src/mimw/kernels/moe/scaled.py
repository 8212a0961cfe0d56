"""The products of a mixture of experts in fp8, with a scale for each 1 x 128 of rows and each 128 x 128 of the experts' weights.

Input: descriptors of A, its scales, all experts' weights and C, a pointer to the weights' scales, what moe_align says of the
blocks, and sizes. Output: C is written. For example:

    _, grid, args, meta = scaled_product(a, scale_a, b, scale_b, c, experts, total, n, programs, bm, gated=True)
    scaled_expert_gemm[grid](*args, **meta)

Blocks, tiles and GATED are those of kernel.py; sums leave the tensor cores every 128 of K, two chunks at a time, as in
block_scaled_gemm. A tile has 128 weights in two halves of 64 with a scale each: gate and up, or one matrix' rows, which
then share one. A consumer has 64 rows. With HALF = 128 tiles are wide: 256 weights in two halves of 128, each with scales of its
own, a quarter fewer bytes out of L2; a consumer then has one product at a time, while the other one adds.

With a `counter` tiles are drawn (drawn.py): a program that begins late, since another launch has had its multiprocessor, holds up
nobody.
"""

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..consumers import consumer, consumers
from ..gemm.epilogue import activated
from ..gemm.kernel import columns, output_tiles, tile_origin
from .drawn import hear, put_back, tell

BLOCK = tl.constexpr(128)       # of K, and of the weights' rows, that share a scale
PIECE = tl.constexpr(64)        # columns that are stored at a time


@mimw.jit
def load(inputs, order, a_desc, scales_desc, b_desc, experts_ptr, total_ptr, counter, N, K, BM: tl.constexpr,
         WIDTH: tl.constexpr, GROUP_M: tl.constexpr, GATED: tl.constexpr):
    """Tiles of rows, their scales and the expert's weights along K, for one output tile of this program after the other."""
    rows = tl.load(total_ptr)
    tiles = output_tiles(rows, N, BM, WIDTH)
    tile = tl.program_id(0)
    turn, chunk = 0, 0
    while tile < tiles:
        m, n = tile_origin(tile, rows, N, BM, WIDTH, GROUP_M)
        if counter is not None:
            tell(order, turn, tile)
            drawn = tl.atomic_add(counter, 1, sem="relaxed")    # on its way while this tile is asked for
        expert = tl.load(experts_ptr + m // BM)
        for step in range(tl.cdiv(K, BLOCK)):
            slot = inputs.acquire(chunk)
            if GATED:
                tle.gpu.copy(b_desc, tlx.local_slice(slot.b, [0, 0], [WIDTH, BLOCK]), b_desc.block_shape, [expert, n, step * BLOCK])
                tle.gpu.copy(b_desc, tlx.local_slice(slot.b, [WIDTH, 0], [WIDTH, BLOCK]), b_desc.block_shape,
                             [expert, N + n, step * BLOCK])
            else:
                tle.gpu.copy(b_desc, slot.b, b_desc.block_shape, [expert, n, step * BLOCK])
            tle.gpu.copy(a_desc, tlx.local_slice(slot.a, [0, 0], [BM, BLOCK]), a_desc.block_shape, [m, step * BLOCK])
            tle.gpu.copy(scales_desc, tlx.local_slice(slot.scales, [0], [BM]), scales_desc.block_shape, [step, m])
            inputs.commit(chunk)
            chunk += 1
        turn += 1
        if counter is None:
            tile += tl.num_programs(0)
        else:
            put_back(counter, drawn, tiles)
            tile = tl.num_programs(0) + drawn
    if counter is not None:
        tell(order, turn, tiles)


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
def multiply(inputs, of_left, of_right, next_step, first, steps, row: tl.constexpr):
    """64 rows from row `row` of the tiles on, times both halves of the weights, scaled: `steps` chunks from number `first` on. The
    pointers are to the halves' first scales, the others lie `next_step` further on. The first one's sums of two chunks are
    scaled while the second one is multiplied."""
    left, right = tl.zeros((64, PIECE), tl.float32), tl.zeros((64, PIECE), tl.float32)
    for pair in range(steps // 2):
        chunk, at = first + 2 * pair, 2 * pair * next_step
        l_scale, r_scale = tl.load(of_left + at), tl.load(of_right + at)
        l_other, r_other = tl.load(of_left + at + next_step), tl.load(of_right + at + next_step)
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
        at = (steps - 1) * next_step
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
def multiply_wide(inputs, of_left, of_right, next_step, first, steps, row: tl.constexpr):
    """`multiply` for halves of 128 weights, which have the registers of a product in turn; their scales are read a chunk ahead."""
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
        at = min(step + 1, steps - 1) * next_step
        l_next, r_next = tl.load(of_left + at), tl.load(of_right + at)
        part = tlx.async_dot_wait(0, part)
        inputs.release(first + step)
        right += part * (scales * r_scale)[:, None]
        right = tlx.async_dot_wait(0, right)
        l_scale, r_scale = l_next, r_next
    return left, right


@mimw.jit
def store(c_desc, staging, number: tl.constexpr, sums, m, n, ROWS: tl.constexpr, STAGING: tl.constexpr):
    """Write ROWS rows of 64 columns; they wait for the store that last used the staging tile."""
    tlx.async_descriptor_store_wait(STAGING - 1)
    tlx.local_store(staging[number], sums.to(tlx.dtype_of(c_desc)))
    tlx.fence("async_shared")
    tlx.async_descriptor_store(c_desc, tlx.local_slice(staging[number], [0, 0], [ROWS, PIECE]), [m, n])


@mimw.jit
def compute(inputs, order, staging, c_desc, scale_b, next_expert, next_row, next_step, experts_ptr, total_ptr, N, K,
            me: tl.constexpr, BM: tl.constexpr, GROUP_M: tl.constexpr, STAGING: tl.constexpr, GATED: tl.constexpr,
            HALF: tl.constexpr):
    """Consumer `me`'s 64 rows of each output tile of this program."""
    WIDTH: tl.constexpr = HALF if GATED else 2 * HALF
    ROWS: tl.constexpr = min(BM, 64)
    rows = tl.load(total_ptr)
    steps = tl.cdiv(K, BLOCK)
    turn, chunk = 0, 0
    tile = tl.program_id(0) if order is None else hear(order, 0)
    while tile < output_tiles(rows, N, BM, WIDTH):
        m, n = tile_origin(tile, rows, N, BM, WIDTH, GROUP_M)
        of_left = scale_b + tl.load(experts_ptr + m // BM).to(tl.int64) * next_expert + n // BLOCK * next_row
        of_right = of_left
        if GATED:
            of_right += N // BLOCK * next_row
        elif HALF == BLOCK:
            of_right += tl.where(n + BLOCK < N, next_row, 0)
        if HALF == BLOCK:
            left, right = multiply_wide(inputs, of_left, of_right, next_step, chunk, steps, 64 * me)
        else:
            left, right = multiply(inputs, of_left, of_right, next_step, chunk, steps, 64 * me)
        PIECES: tl.constexpr = HALF // PIECE
        if GATED:
            for piece in tl.static_range(PIECES):
                sums = activated(columns(left, piece, PIECES), "silu") * columns(right, piece, PIECES)
                store(c_desc, staging, STAGING * me + piece % STAGING, sums, m + 64 * me, n + piece * PIECE, ROWS, STAGING)
        else:
            for piece in tl.static_range(PIECES):
                store(c_desc, staging, STAGING * me + piece % STAGING, columns(left, piece, PIECES), m + 64 * me, n + piece * PIECE,
                      ROWS, STAGING)
            for piece in tl.static_range(PIECES):
                store(c_desc, staging, STAGING * me + (PIECES + piece) % STAGING, columns(right, piece, PIECES), m + 64 * me,
                      n + HALF + piece * PIECE, ROWS, STAGING)
        chunk += steps
        turn += 1
        tile = tile + tl.num_programs(0) if order is None else hear(order, turn)
    tlx.async_descriptor_store_wait(0)


@mimw.jit
def scaled_expert_gemm(a_desc, scales_desc, b_desc, c_desc, scale_b, next_expert, next_row, next_step, experts_ptr, total_ptr,
                       counter, N, K, BM: tl.constexpr, GROUP_M: tl.constexpr, STAGES: tl.constexpr, GATED: tl.constexpr,
                       HALF: tl.constexpr = 64):
    """C[rows, N] = A B[expert]^T of rows in blocks, or, GATED, silu(A gate^T) (A up^T) of the halves of B[expert], with B as
    (experts, N or 2 N, K), A's scales as (cdiv(K, 128), rows), and B's as `next_expert`, `next_row` and `next_step` say. `counter`
    is an int32, 0 before and after a launch, or None."""
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
    order = None
    if counter is not None:
        order = tle.pipe(capacity=2, readers=consumers(CONSUMERS), name="order", tile=tle.gpu.alloc([2, 1], tl.int32))
    staging = tlx.local_alloc((64, PIECE), tlx.dtype_of(c_desc), STAGING * CONSUMERS)
    tl.extra.cuda.gdc_wait()                    # for all that the launches ahead have written
    tl.extra.cuda.gdc_launch_dependents()

    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=240, replicate=CONSUMERS):  # consumer
            me: tl.constexpr = tlx.async_task_replica_id()
            told = None if order is None else order.reader(consumer(me))
            compute(inputs.reader(consumer(me)), told, staging, c_desc, scale_b, next_expert, next_row, next_step, experts_ptr,
                    total_ptr, N, K, me, BM, GROUP_M, STAGING, GATED, HALF)
        with tlx.async_task(num_warps=1, num_regs=24):  # producer
            tells = None if order is None else order.writer()
            load(inputs.writer(), tells, a_desc, scales_desc, b_desc, experts_ptr, total_ptr, counter, N, K, BM, WIDTH, GROUP_M,
                 GATED)
