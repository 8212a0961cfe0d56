"""A product for each group of rows on Hopper: `C[rows of g] = A[rows of g] B[g]`, whose sizes only the device knows.

Input: descriptors of A, B and C, the row behind the last one of each group, and sizes. Output: C is written. For example:

    grid, args, meta = arguments(a, b, c, ends, programs)
    grouped_gemm[grid](*args, **meta)

Nouns and roles are the GEMM's, and so are both schedules. The grid is persistent: tile t of all tiles, counted group by group,
belongs to program t modulo their number, and every role walks through the groups to find where its tiles lie.

A tile's last rows may be those of the next group. Loading them does no harm; storing would. So C is described as a tensor of four
dimensions that ends wherever a group does, with one map for all groups:

    element (x, end, r, n) lies at  x (2^34 - S) + end S + r S + n        S the stride of rows, all extents of x and r 2^30 or less

Of x = 2^30 and r = 2^30 - (end - m) the first two terms and r make 2^64 + m S: addresses have 64 bits, so that is row m. And r is
outside of the tensor from 2^30 on, which is row `end`: TMA drops what is behind it.
"""

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..consumers import consumer, consumers, one_of_consumers, open_turns
from ..gemm.kernel import columns, multiply, output_tiles, tile_origin

FAR = tl.constexpr(2**30)       # rows that a group has at most, and what makes addresses come round


@mimw.jit
def load(inputs, a_desc, b_desc, ends, groups, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP_M: tl.constexpr,
         B_IS_NK: tl.constexpr):
    """Tiles of A and of the group's B along K, for one output tile of this program after the other."""
    chunk = 0
    start, before = 0, 0
    tile = tl.program_id(0)
    for group in range(groups):
        end = tl.load(ends + group)
        behind = before + output_tiles(end - start, N, BM, BN)
        while tile < behind:
            m, n = tile_origin(tile - before, end - start, N, BM, BN, GROUP_M)
            for k in range(0, K, BK):
                slot = inputs.acquire(chunk)
                tle.gpu.copy(a_desc, slot.a, a_desc.block_shape, [start + m, k])
                tle.gpu.copy(b_desc, slot.b, b_desc.block_shape, [group, n, k] if B_IS_NK else [group, k, n])
                inputs.commit(chunk)
                chunk += 1
            tile += tl.num_programs(0)
        start, before = end, behind


@mimw.jit
def store(c_desc, staging, first: tl.constexpr, acc, m, end, n, BN: tl.constexpr, PIECES: tl.constexpr, STAGING: tl.constexpr):
    """Write the rows of an output tile up to `end` in column pieces; a piece waits only for the store that last used its tile."""
    for piece in tl.static_range(PIECES):
        tile = staging[first + piece % STAGING]
        tlx.async_descriptor_store_wait(STAGING - 1)
        tlx.local_store(tile, columns(acc, piece, PIECES).to(tlx.dtype_of(c_desc)))
        tlx.fence("async_shared")
        tlx.async_descriptor_store(c_desc, tile, [FAR, end, FAR - (end - m), n + piece * (BN // PIECES)])


@mimw.jit
def compute(inputs, staging, c_desc, ends, groups, N, K, me: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
            GROUP_M: tl.constexpr, CONSUMERS: tl.constexpr, PIECES: tl.constexpr, STAGING: tl.constexpr, PING_PONG: tl.constexpr,
            B_IS_NK: tl.constexpr):
    """The output tiles of consumer `me`: all of its rows in ping-pong, its share of the rows of each tile otherwise."""
    TURNS: tl.constexpr = CONSUMERS if PING_PONG else 1
    ROWS: tl.constexpr = BM // (CONSUMERS // TURNS)
    turn: tl.constexpr = me if PING_PONG else 0
    row: tl.constexpr = 0 if PING_PONG else me * ROWS
    steps = tl.cdiv(K, BK)
    chunk = turn * steps
    if PING_PONG:
        open_turns(me, CONSUMERS)
    start, before = 0, 0
    tile = tl.program_id(0) + turn * tl.num_programs(0)
    for group in range(groups):
        end = tl.load(ends + group)
        behind = before + output_tiles(end - start, N, BM, BN)
        while tile < behind:
            acc = multiply(inputs, chunk, steps, me, row, ROWS, BN, CONSUMERS, PING_PONG, B_IS_NK)
            m, n = tile_origin(tile - before, end - start, N, BM, BN, GROUP_M)
            store(c_desc, staging, STAGING * me, acc, start + m + row, end, n, BN, PIECES, STAGING)
            chunk += TURNS * steps
            tile += TURNS * tl.num_programs(0)
        start, before = end, behind
    tlx.async_descriptor_store_wait(0)


@mimw.jit
def grouped_gemm(a_desc, b_desc, c_desc, ends, groups, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
                 GROUP_M: tl.constexpr, STAGES: tl.constexpr, CONSUMERS: tl.constexpr, PIECES: tl.constexpr, STAGING: tl.constexpr,
                 PING_PONG: tl.constexpr, B_IS_NK: tl.constexpr):
    """C = A B[group] of rows in groups, with B as (groups, K, N), or as (groups, N, K) where B_IS_NK; `ends` is (groups, )."""
    ROWS: tl.constexpr = BM if PING_PONG else BM // CONSUMERS
    B_SHAPE: tl.constexpr = (STAGES, BN, BK) if B_IS_NK else (STAGES, BK, BN)
    inputs = tle.pipe(capacity=STAGES, readers=one_of_consumers(CONSUMERS) if PING_PONG else consumers(CONSUMERS), name="inputs",
                      a=tle.gpu.alloc([STAGES, BM, BK], tlx.dtype_of(a_desc)),
                      b=tle.gpu.alloc(B_SHAPE, tlx.dtype_of(b_desc)))
    staging = tlx.local_alloc((ROWS, BN // PIECES), tlx.dtype_of(c_desc), STAGING * CONSUMERS)

    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=240, replicate=CONSUMERS):  # consumer
            me: tl.constexpr = tlx.async_task_replica_id()
            compute(inputs.reader(consumer(me)), staging, c_desc, ends, groups, N, K, me, BM, BN, BK, GROUP_M, CONSUMERS, PIECES,
                    STAGING, PING_PONG, B_IS_NK)
        with tlx.async_task(num_warps=1, num_regs=24):  # producer
            load(inputs.writer(), a_desc, b_desc, ends, groups, N, K, BM, BN, BK, GROUP_M, B_IS_NK)
