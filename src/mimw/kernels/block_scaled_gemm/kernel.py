"""fp8 products with a scale for each 1 x 128 of A and each 128 x 128 of B, on Hopper: of one matrix or of groups of rows.

Input: descriptors of A, B, C and A's scales, a pointer to B's scales, and sizes. Output: C is written. For example:

    grid, args, meta = arguments(a, b, c, scale_a, scale_b, programs)
    block_scaled_gemm[grid](*args, **meta)

Every 128 of K the sums leave the tensor cores, are multiplied by both scales and added up in fp32 by ordinary instructions, while
another consumer multiplies. That keeps all bits of the sums, too (gemm/promoted.py); how a consumer does it is in multiply.py.

Nouns: the pipe `inputs`, whose chunk holds a (BM, 128) tile of A, the (128, 128) tile of B that goes with it, and the BM scales of
A; STAGING tiles for each consumer's stores. Which rows belong together says LAYOUT:

    plain        all M rows
    contiguous   rows ends[g - 1] to ends[g] - 1 are group g's, and are multiplied by B[g]
    masked       matrix g of A has M rows, of which the first ends[g] are there

Tiles are counted group by group, and a group's last tile ends where the group does: both as in grouped_gemm. Where 64 columns or
fewer are left over (NARROW), a product of 64 columns takes half the time; two such tiles, one below the other, count as one.
"""

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..consumers import consumer, consumers
from ..gemm.kernel import columns, output_tiles, tile_origin
from ..grouped_gemm.kernel import FAR
from .multiply import BLOCK, multiply, multiply_tall

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
def whole_tiles(rows, N, BM: tl.constexpr, NARROW: tl.constexpr):
    """Tiles of 128 columns, and all that are counted."""
    if NARROW:
        whole = output_tiles(rows, N // BLOCK * BLOCK, BM, BLOCK)
        return whole, whole + tl.cdiv(tl.cdiv(rows, BM), 2)
    whole = output_tiles(rows, N, BM, BLOCK)
    return whole, whole


@mimw.jit
def place(tile, whole, rows, N, BM: tl.constexpr, GROUP_M: tl.constexpr, NARROW: tl.constexpr):
    """(first row, first column, how many tiles one below the other) of tile number `tile` of a group."""
    if NARROW:
        if tile < whole:
            m, n = tile_origin(tile, rows, N // BLOCK * BLOCK, BM, BLOCK, GROUP_M)
            count = 1
        else:
            m, n = (tile - whole) * 2 * BM, N // BLOCK * BLOCK
            count = min(2, tl.cdiv(rows - m, BM))
        return m, n, count
    m, n = tile_origin(tile, rows, N, BM, BLOCK, GROUP_M)
    return m, n, 1


@mimw.jit
def load(inputs, a_desc, b_desc, scales_desc, ends, groups, M, N, K, BM: tl.constexpr, GROUP_M: tl.constexpr,
         LAYOUT: tl.constexpr, NARROW: tl.constexpr):
    """Tiles of A and B and scales of A along K, for one output tile of this program after the other."""
    BOX: tl.constexpr = scales_desc.block_shape[2]
    chunk = 0
    done, before = 0, 0
    tile = tl.program_id(0)
    for group in range(groups):
        matrix, row, rows, _ = extent(ends, group, done, M, LAYOUT)
        whole, all_tiles = whole_tiles(rows, N, BM, NARROW)
        while tile < before + all_tiles:
            m, n, count = place(tile - before, whole, rows, N, BM, GROUP_M, NARROW)
            for nth in range(count):
                for step in range(tl.cdiv(K, BLOCK)):
                    slot = inputs.acquire(chunk)
                    at = row + m + nth * BM
                    tle.gpu.copy(a_desc, slot.a, a_desc.block_shape, [matrix, at, step * BLOCK])
                    tle.gpu.copy(b_desc, slot.b, b_desc.block_shape, [group, n, step * BLOCK])
                    for part in tl.static_range(slot.scales.shape[0] // BOX):
                        tle.gpu.copy(scales_desc, tlx.local_slice(slot.scales, [part * BOX], [BOX]), scales_desc.block_shape,
                                     [matrix, step, at // WHOLE * WHOLE + part * BOX])
                    inputs.commit(chunk)
                    chunk += 1
            tile += tl.num_programs(0)
        done, before = row + rows, before + all_tiles


@mimw.jit
def store(c_desc, staging, first: tl.constexpr, sums, m, end, n, PIECES: tl.constexpr, STAGING: tl.constexpr):
    """Write the columns of an output tile up to row `end` in pieces; a piece waits for the store that last used its tile."""
    for piece in tl.static_range(PIECES):
        tile = staging[first + piece % STAGING]
        tlx.async_descriptor_store_wait(STAGING - 1)
        tlx.local_store(tile, columns(sums, piece, PIECES).to(tlx.dtype_of(c_desc)))
        tlx.fence("async_shared")
        tlx.async_descriptor_store(c_desc, tile, [FAR, end, FAR - (end - m), n + piece * (sums.shape[1] // PIECES)])


@mimw.jit
def compute_tile(inputs, staging, c_desc, scales, chunk, steps, shift, m, end, n, me: tl.constexpr, ROWS: tl.constexpr,
                 COLUMNS: tl.constexpr, FIRST: tl.constexpr, PIECES: tl.constexpr, STAGING: tl.constexpr, LAYOUT: tl.constexpr,
                 TOGETHER: tl.constexpr, APART: tl.constexpr, EARLY: tl.constexpr):
    """Consumer `me`'s ROWS rows of an output tile, from row m of C on."""
    if ROWS == 128:
        sums, more = multiply_tall(inputs, scales, chunk, steps, shift, ROWS * me, COLUMNS, LAYOUT, APART)
        store(c_desc, staging, FIRST, sums, m, end, n, PIECES, STAGING)
        store(c_desc, staging, FIRST, more, m + 64, end, n, PIECES, STAGING)
    else:
        AHEAD: tl.constexpr = TOGETHER // 2 if me == 1 and APART else 0
        sums = multiply(inputs, scales, chunk, steps, shift, ROWS * me, COLUMNS, LAYOUT, TOGETHER, AHEAD, EARLY)
        store(c_desc, staging, FIRST, sums, m, end, n, PIECES, STAGING)


@mimw.jit
def compute(inputs, staging, c_desc, scale_b, next_group, next_column, next_step, ends, groups, M, N, K, me: tl.constexpr,
            BM: tl.constexpr, GROUP_M: tl.constexpr, ROWS: tl.constexpr, PIECES: tl.constexpr, STAGING: tl.constexpr,
            LAYOUT: tl.constexpr, TOGETHER: tl.constexpr, APART: tl.constexpr, NARROW: tl.constexpr, EARLY: tl.constexpr):
    """Consumer `me`'s rows of each output tile of this program."""
    steps = tl.cdiv(K, BLOCK)
    chunk = 0
    done, before = 0, 0
    tile = tl.program_id(0)
    for group in range(groups):
        _, row, rows, first = extent(ends, group, done, M, LAYOUT)
        whole, all_tiles = whole_tiles(rows, N, BM, NARROW)
        while tile < before + all_tiles:
            m, n, count = place(tile - before, whole, rows, N, BM, GROUP_M, NARROW)
            scales = scale_b + group.to(tl.int64) * next_group + n // BLOCK * next_column, next_step
            shift = (row + m) % WHOLE
            m += ROWS * me
            if NARROW:
                if tile - before >= whole:
                    for nth in range(count):
                        compute_tile(inputs, staging, c_desc, scales, chunk + nth * steps, steps, shift, first + m + nth * BM,
                                     first + rows, n, me, ROWS, BLOCK // 2, STAGING * me, PIECES // 2, 1, LAYOUT, TOGETHER,
                                     APART, EARLY)
                    tlx.async_descriptor_store_wait(0)      # the next tile begins with the same staging tile
                else:
                    compute_tile(inputs, staging, c_desc, scales, chunk, steps, shift, first + m, first + rows, n, me, ROWS, BLOCK,
                                 STAGING * me, PIECES, STAGING, LAYOUT, TOGETHER, APART, EARLY)
            else:
                compute_tile(inputs, staging, c_desc, scales, chunk, steps, shift, first + m, first + rows, n, me, ROWS, BLOCK,
                             STAGING * me, PIECES, STAGING, LAYOUT, TOGETHER, APART, EARLY)
            chunk += count * steps
            tile += tl.num_programs(0)
        done, before = row + rows, before + all_tiles
    tlx.async_descriptor_store_wait(0)


@mimw.jit
def block_scaled_gemm(a_desc, b_desc, c_desc, scales_desc, scale_b, next_group, next_column, next_step, ends, groups, M, N, K,
                      BM: tl.constexpr, GROUP_M: tl.constexpr, STAGES: tl.constexpr, ROWS: tl.constexpr, PIECES: tl.constexpr,
                      STAGING: tl.constexpr, LAYOUT: tl.constexpr, TOGETHER: tl.constexpr, APART: tl.constexpr,
                      NARROW: tl.constexpr, EARLY: tl.constexpr):
    """C = A B[group] with scales. A is (matrices, M, K), B (groups, N, K), A's scales (matrices, cdiv(K, 128), M)."""
    tl.static_assert(APART <= STAGES, "the second consumer's slots would never be given back")
    CONSUMERS: tl.constexpr = BM // ROWS
    inputs = tle.pipe(capacity=STAGES, readers=consumers(CONSUMERS), name="inputs",
                      a=tle.gpu.alloc([STAGES, BM, BLOCK], tlx.dtype_of(a_desc)),
                      b=tle.gpu.alloc([STAGES, BLOCK, BLOCK], tlx.dtype_of(b_desc)),
                      scales=tle.gpu.alloc([STAGES, 2 * BM if LAYOUT == "contiguous" else BM], tl.float32))
    staging = tlx.local_alloc((64, BLOCK // PIECES), tlx.dtype_of(c_desc), STAGING * CONSUMERS)

    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=240, replicate=CONSUMERS):  # consumer
            me: tl.constexpr = tlx.async_task_replica_id()
            compute(inputs.reader(consumer(me)), staging, c_desc, scale_b, next_group, next_column, next_step, ends, groups, M, N,
                    K, me, BM, GROUP_M, ROWS, PIECES, STAGING, LAYOUT, TOGETHER, APART, NARROW, EARLY)
        with tlx.async_task(num_warps=1, num_regs=24):  # producer
            load(inputs.writer(), a_desc, b_desc, scales_desc, ends, groups, M, N, K, BM, GROUP_M, LAYOUT, NARROW)
