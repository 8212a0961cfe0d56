"""fp8 products with a scale for each 1 x 128 of A and each 128 x 128 of B, on Hopper: of one matrix or of groups of rows.

Input: descriptors of A, B, C and A's scales, a pointer to B's scales, and sizes. Output: C is written. For example:

    grid, args, meta = arguments(a, b, c, scale_a, scale_b, programs)
    block_scaled_gemm[grid](*args, **meta)

Every 128 of K the sums leave the tensor cores, are multiplied by both scales and added up in fp32 by ordinary instructions, while
another consumer multiplies. That keeps all bits of the sums, too (gemm/promoted.py). A consumer has 64 rows; its columns come in
parts of 128, each with one scale of B, and the parts share the registers of the product.

Nouns: the pipe `inputs`, whose chunk holds a (BM, 128) tile of A, the (BN, 128) tile of B, and the BM scales of A; STAGING tiles
for each consumer's stores. Which rows belong together says LAYOUT:

    plain        all M rows
    contiguous   rows ends[g - 1] to ends[g] - 1 are group g's, and are multiplied by B[g]
    masked       matrix g of A has M rows, of which the first ends[g] are there

Tiles are counted group by group, and a group's last tile ends where the group does: both as in grouped_gemm.
"""

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..consumers import consumer, consumers
from ..gemm.kernel import columns, output_tiles, tile_origin
from ..grouped_gemm.kernel import FAR

BLOCK = tl.constexpr(128)       # of K, and of B's columns, that share a scale
WHOLE = tl.constexpr(4)         # scales are 16 bytes: a TMA copy begins at a multiple, else it is an illegal instruction


@mimw.jit
def extent(ends, group, before, M, LAYOUT: tl.constexpr):
    """(matrix of A, first row in it, rows of the group, first row of C) where the group before ended at row `before`."""
    if LAYOUT == "plain":
        return 0, 0, M, 0
    elif LAYOUT == "contiguous":
        return 0, before, tl.load(ends + group) - before, before
    else:
        return group, 0, tl.load(ends + group), group * M


@mimw.jit
def load(inputs, a_desc, b_desc, scales_desc, ends, groups, M, N, K, BM: tl.constexpr, BN: tl.constexpr, GROUP_M: tl.constexpr,
         LAYOUT: tl.constexpr):
    """Tiles of A and B and scales of A along K, for one output tile of this program after the other."""
    chunk = 0
    done, before = 0, 0
    tile = tl.program_id(0)
    for group in range(groups):
        matrix, row, rows, _ = extent(ends, group, done, M, LAYOUT)
        behind = before + output_tiles(rows, N, BM, BN)
        while tile < behind:
            m, n = tile_origin(tile - before, rows, N, BM, BN, GROUP_M)
            for step in range(tl.cdiv(K, BLOCK)):
                slot = inputs.acquire(chunk)
                tle.gpu.copy(a_desc, slot.a, a_desc.block_shape, [matrix, row + m, step * BLOCK])
                tle.gpu.copy(b_desc, slot.b, b_desc.block_shape, [group, n, step * BLOCK])
                at = (row + m) // WHOLE * WHOLE
                tle.gpu.copy(scales_desc, slot.scales, scales_desc.block_shape, [matrix, step, at])
                inputs.commit(chunk)
                chunk += 1
            tile += tl.num_programs(0)
        done, before = row + rows, behind


@mimw.jit
def part_product(slot, row: tl.constexpr, part: tl.constexpr):
    """A[row :] B for 64 rows and part number `part` of 128 columns, started and not waited for."""
    a = tlx.local_slice(slot.a, [row, 0], [64, BLOCK])
    return tlx.async_dot(a, tlx.local_trans(tlx.local_slice(slot.b, [part * BLOCK, 0], [BLOCK, BLOCK])))


@mimw.jit
def scales_of(slot, shift, row: tl.constexpr, LAYOUT: tl.constexpr):
    """The scales of 64 rows from row `row` of the tile on, which begins at number `shift` of those that were copied. Only groups
    that lie one behind the other begin anywhere."""
    if LAYOUT == "contiguous":
        return tl.load(tle.gpu.local_ptr(slot.scales, (shift + row + tl.arange(0, 64), )))
    else:
        return tlx.local_load(tlx.local_slice(slot.scales, [row], [64]))


@mimw.jit
def multiply(inputs, scale_b, next_column, next_step, first, steps, shift, row: tl.constexpr, PARTS: tl.constexpr,
             LAYOUT: tl.constexpr):
    """64 rows of A, from row `row` of its tiles on, times PARTS of 128 columns of B, scaled: `steps` chunks from `first` on.
    `scale_b` points to the first part's first scale, the others lie `next_column` and `next_step` further on."""
    sums = tl.zeros((64, BLOCK), tl.float32)
    more = tl.zeros((64, BLOCK), tl.float32)
    for step in range(steps):
        scale = tl.load(scale_b + step * next_step)
        if PARTS == 2:
            other = tl.load(scale_b + step * next_step + next_column)
        slot = inputs.wait(first + step).slot
        part = part_product(slot, row, 0)
        scales = scales_of(slot, shift, row, LAYOUT)
        part = tlx.async_dot_wait(0, part)
        if PARTS == 1:
            inputs.release(first + step)
        sums += part * (scales * scale)[:, None]
        if PARTS == 2:
            sums = tlx.async_dot_wait(0, sums)      # the sum is done here, not behind the next product: that needs its registers
            part = tlx.async_dot_wait(0, part_product(slot, row, 1))
            inputs.release(first + step)
            more += part * (scales * other)[:, None]
    return sums, more


@mimw.jit
def plus_products(sums, inputs, scale_b, next_step, first, COUNT: tl.constexpr, shift, row: tl.constexpr, LAYOUT: tl.constexpr):
    """`sums` and the scaled products of COUNT chunks from `first` on: one's sums are scaled while the next one is multiplied."""
    scale = tl.load(scale_b)
    slot = inputs.wait(first).slot
    part = part_product(slot, row, 0)
    scales = scales_of(slot, shift, row, LAYOUT)
    for chunk in tl.static_range(1, COUNT):
        other = tl.load(scale_b + chunk * next_step)
        slot = inputs.wait(first + chunk).slot
        more = part_product(slot, row, 0)
        others = scales_of(slot, shift, row, LAYOUT)
        part = tlx.async_dot_wait(1, part)
        inputs.release(first + (chunk - 1))
        sums += part * (scales * scale)[:, None]
        sums = tlx.async_dot_wait(1, sums)      # the sum is done here, beside the next product
        part, scales, scale = more, others, other
    part = tlx.async_dot_wait(0, part)
    inputs.release(first + (COUNT - 1))
    return sums + part * (scales * scale)[:, None]


@mimw.jit
def multiply_together(inputs, scale_b, next_step, first, steps, shift, row: tl.constexpr, COUNT: tl.constexpr,
                      LAYOUT: tl.constexpr):
    """As `multiply` of one part, COUNT chunks at a time."""
    sums = tl.zeros((64, BLOCK), tl.float32)
    whole = steps // COUNT * COUNT
    for step in range(0, whole, COUNT):
        sums = plus_products(sums, inputs, scale_b + step * next_step, next_step, first + step, COUNT, shift, row, LAYOUT)
    for step in range(whole, steps):
        sums = plus_products(sums, inputs, scale_b + step * next_step, next_step, first + step, 1, shift, row, LAYOUT)
    return sums, sums


@mimw.jit
def store(c_desc, staging, first: tl.constexpr, sums, m, end, n, PIECES: tl.constexpr, STAGING: tl.constexpr):
    """Write 128 columns of an output tile up to row `end` in column pieces; a piece waits for the store that last used its tile."""
    for piece in tl.static_range(PIECES):
        tile = staging[first + piece % STAGING]
        tlx.async_descriptor_store_wait(STAGING - 1)
        tlx.local_store(tile, columns(sums, piece, PIECES).to(tlx.dtype_of(c_desc)))
        tlx.fence("async_shared")
        tlx.async_descriptor_store(c_desc, tile, [FAR, end, FAR - (end - m), n + piece * (BLOCK // PIECES)])


@mimw.jit
def compute(inputs, staging, c_desc, scale_b, next_group, next_column, next_step, ends, groups, M, N, K, me: tl.constexpr,
            BM: tl.constexpr, BN: tl.constexpr, GROUP_M: tl.constexpr, PIECES: tl.constexpr, STAGING: tl.constexpr,
            LAYOUT: tl.constexpr, TOGETHER: tl.constexpr):
    """Consumer `me`'s 64 rows of each output tile of this program."""
    PARTS: tl.constexpr = BN // BLOCK
    steps = tl.cdiv(K, BLOCK)
    chunk = 0
    done, before = 0, 0
    tile = tl.program_id(0)
    for group in range(groups):
        _, row, rows, first = extent(ends, group, done, M, LAYOUT)
        behind = before + output_tiles(rows, N, BM, BN)
        while tile < behind:
            m, n = tile_origin(tile - before, rows, N, BM, BN, GROUP_M)
            scales = scale_b + group.to(tl.int64) * next_group + n // BLOCK * next_column
            if TOGETHER > 1:
                sums, more = multiply_together(inputs, scales, next_step, chunk, steps, (row + m) % WHOLE, 64 * me, TOGETHER,
                                               LAYOUT)
            else:
                other = tl.where(n + BLOCK < N, next_column, 0)
                sums, more = multiply(inputs, scales, other, next_step, chunk, steps, (row + m) % WHOLE, 64 * me, PARTS, LAYOUT)
            store(c_desc, staging, STAGING * me, sums, first + m + 64 * me, first + rows, n, PIECES, STAGING)
            if PARTS == 2:
                store(c_desc, staging, STAGING * me, more, first + m + 64 * me, first + rows, n + BLOCK, PIECES, STAGING)
            chunk += steps
            tile += tl.num_programs(0)
        done, before = row + rows, behind
    tlx.async_descriptor_store_wait(0)


@mimw.jit
def block_scaled_gemm(a_desc, b_desc, c_desc, scales_desc, scale_b, next_group, next_column, next_step, ends, groups, M, N, K,
                      BM: tl.constexpr, BN: tl.constexpr, GROUP_M: tl.constexpr, STAGES: tl.constexpr, PIECES: tl.constexpr,
                      STAGING: tl.constexpr, LAYOUT: tl.constexpr, TOGETHER: tl.constexpr):
    """C = A B[group] with scales. A is (matrices, M, K), B (groups, N, K), A's scales (matrices, cdiv(K, 128), M)."""
    tl.static_assert(TOGETHER == 1 or BN == BLOCK, "products that overlap have the registers of one part of columns each")
    CONSUMERS: tl.constexpr = BM // 64
    inputs = tle.pipe(capacity=STAGES, readers=consumers(CONSUMERS), name="inputs",
                      a=tle.gpu.alloc([STAGES, BM, BLOCK], tlx.dtype_of(a_desc)),
                      b=tle.gpu.alloc([STAGES, BN, BLOCK], tlx.dtype_of(b_desc)),
                      scales=tle.gpu.alloc([STAGES, 2 * BM if LAYOUT == "contiguous" else BM], tl.float32))
    staging = tlx.local_alloc((64, BLOCK // PIECES), tlx.dtype_of(c_desc), STAGING * CONSUMERS)

    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=240, replicate=CONSUMERS):  # consumer
            me: tl.constexpr = tlx.async_task_replica_id()
            compute(inputs.reader(consumer(me)), staging, c_desc, scale_b, next_group, next_column, next_step, ends, groups, M, N,
                    K, me, BM, BN, GROUP_M, PIECES, STAGING, LAYOUT, TOGETHER)
        with tlx.async_task(num_warps=1, num_regs=24):  # producer
            load(inputs.writer(), a_desc, b_desc, scales_desc, ends, groups, M, N, K, BM, BN, GROUP_M, LAYOUT)
