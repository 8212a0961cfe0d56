"""`C = A B` on Hopper: one warp loads tiles with TMA, warpgroups multiply them, and stores overlap the next tile.

Nouns: a ring of `STAGES` slots, each holding a (BM, BK) tile of A and a (BK, BN) tile of B. `full[slot]` completes when both
tiles have landed; `free[slot]` when every consumer has read them. Each consumer owns BM / CONSUMERS rows of the output tile
and two staging tiles through which it stores them.

Two schedules share the roles:

    cooperative   the consumers work on one output tile together, each on its own rows
    ping-pong     each consumer works on output tiles of its own; while one multiplies, the other stores

The grid is persistent: program p computes the output tiles p, p + programs, ... in an order that keeps a band of GROUP_M
tile rows in the L2 cache.
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx


@mimw.jit
def tile_origin(tile, tiles_m, tiles_n, BM: tl.constexpr, BN: tl.constexpr, GROUP_M: tl.constexpr):
    """First row and column of output tile number `tile`, counted down bands of GROUP_M tile rows."""
    per_band = GROUP_M * tiles_n
    first = (tile // per_band) * GROUP_M
    height = min(tiles_m - first, GROUP_M)
    within = tile % per_band
    return (first + within % height) * BM, (within // height) * BN


@mimw.jit
def load(a_desc, b_desc, a_tiles, b_tiles, full, free, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
         GROUP_M: tl.constexpr, STAGES: tl.constexpr, B_IS_NK: tl.constexpr):
    """Role: fill the ring with the tiles that the consumers will ask for, in their order."""
    BYTES: tl.constexpr = (BM + BN) * BK * tlx.size_of(tlx.dtype_of(a_desc))
    tiles_m, tiles_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    filled = 0
    for tile in range(tl.program_id(0), tiles_m * tiles_n, tl.num_programs(0)):
        m, n = tile_origin(tile, tiles_m, tiles_n, BM, BN, GROUP_M)
        for k in range(0, K, BK):
            slot, phase = tlx.warp_spec.get_bufidx_phase(filled, STAGES)
            tlx.barrier_wait(free[slot], phase ^ 1)
            tlx.barrier_expect_bytes(full[slot], BYTES)
            tlx.async_descriptor_load(a_desc, a_tiles[slot], [m, k], full[slot])
            if B_IS_NK:
                tlx.async_descriptor_load(b_desc, b_tiles[slot], [n, k], full[slot])
            else:
                tlx.async_descriptor_load(b_desc, b_tiles[slot], [k, n], full[slot])
            filled += 1


@mimw.jit
def multiply(a_tiles, b_tiles, full, free, used, K, row: tl.constexpr, ROWS: tl.constexpr, BN: tl.constexpr,
             BK: tl.constexpr, STAGES: tl.constexpr, B_IS_NK: tl.constexpr):
    """One output tile's sum over K, from ring position `used` on. A slot is freed when the dot after its own has started."""
    acc = tl.zeros((ROWS, BN), tl.float32)
    last = 0
    for k in range(0, K, BK):
        slot, phase = tlx.warp_spec.get_bufidx_phase(used, STAGES)
        tlx.barrier_wait(full[slot], phase)
        a = tlx.local_slice(a_tiles[slot], [row, 0], [ROWS, BK])
        b = tlx.local_trans(b_tiles[slot]) if B_IS_NK else b_tiles[slot]
        acc = tlx.async_dot(a, b, acc)
        acc = tlx.async_dot_wait(1, acc)
        tlx.barrier_arrive(free[last], pred=k > 0)
        last = slot
        used += 1
    acc = tlx.async_dot_wait(0, acc)
    tlx.barrier_arrive(free[last])
    return acc, used


@mimw.jit
def store(c_desc, staging, acc, m, n, BN: tl.constexpr, PIECES: tl.constexpr):
    """Write a tile of C in column pieces; each piece waits only for the store before the last one."""
    WIDTH: tl.constexpr = BN // PIECES
    for piece in tl.static_range(PIECES):
        tile = staging[piece % 2]
        tlx.async_descriptor_store_wait(1)
        tlx.local_store(tile, columns(acc, piece, PIECES).to(tlx.dtype_of(c_desc)))
        tlx.fence("async_shared")
        tlx.async_descriptor_store(c_desc, tile, [m, n + piece * WIDTH])


@mimw.jit
def columns(acc, piece: tl.constexpr, PIECES: tl.constexpr):
    """Column piece number `piece` of `PIECES` equal ones: halve and recurse, so that registers stay where they are."""
    if PIECES == 1:
        return acc
    left, right = acc.reshape(acc.shape[0], 2, acc.shape[1] // 2).permute(0, 2, 1).split()
    HALF: tl.constexpr = PIECES // 2
    if piece < HALF:
        return columns(left, piece, HALF)
    return columns(right, piece - HALF, HALF)


@mimw.jit
def gemm(a_desc, b_desc, c_desc, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP_M: tl.constexpr,
         STAGES: tl.constexpr, CONSUMERS: tl.constexpr, PIECES: tl.constexpr, PING_PONG: tl.constexpr,
         B_IS_NK: tl.constexpr):
    """C[M, N] = A[M, K] B, with B as (K, N), or as (N, K) where B_IS_NK (8-bit and tf32 inputs need that)."""
    ROWS: tl.constexpr = BM // CONSUMERS
    B_SHAPE: tl.constexpr = (BN, BK) if B_IS_NK else (BK, BN)
    a_tiles = tlx.local_alloc((BM, BK), tlx.dtype_of(a_desc), STAGES)
    b_tiles = tlx.local_alloc(B_SHAPE, tlx.dtype_of(b_desc), STAGES)
    staging = tlx.local_alloc((ROWS, BN // PIECES), tlx.dtype_of(c_desc), 2 * CONSUMERS)
    full = tlx.alloc_barriers(STAGES)
    free = tlx.alloc_barriers(STAGES, arrive_count=CONSUMERS)

    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=240, replicate=CONSUMERS):  # consumer
            me: tl.constexpr = tlx.async_task_replica_id()
            tiles_m, tiles_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
            used = 0
            for tile in range(tl.program_id(0), tiles_m * tiles_n, tl.num_programs(0)):
                m, n = tile_origin(tile, tiles_m, tiles_n, BM, BN, GROUP_M)
                acc, used = multiply(a_tiles, b_tiles, full, free, used, K, me * ROWS, ROWS, BN, BK, STAGES, B_IS_NK)
                for piece in tl.static_range(PIECES):
                    tile_out = staging[me * 2 + piece % 2]
                    tlx.async_descriptor_store_wait(1)
                    tlx.local_store(tile_out, columns(acc, piece, PIECES).to(tlx.dtype_of(c_desc)))
                    tlx.fence("async_shared")
                    tlx.async_descriptor_store(c_desc, tile_out, [m + me * ROWS, n + piece * (BN // PIECES)])
            tlx.async_descriptor_store_wait(0)
        with tlx.async_task(num_warps=1, num_regs=24):  # producer
            load(a_desc, b_desc, a_tiles, b_tiles, full, free, M, N, K, BM, BN, BK, GROUP_M, STAGES, B_IS_NK)
