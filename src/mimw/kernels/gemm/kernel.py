"""`C = A B` on Hopper: one warp loads tiles with TMA, warpgroups multiply them, and stores overlap the next tile.

Nouns: a ring of STAGES slots, each with a (BM, BK) tile of A and a tile of B of BK x BN. `full[slot]` completes when both have
landed, `free[slot]` when every consumer of the slot has read them. Each consumer has STAGING tiles for its stores.
`go[c]` completes when consumer c may start to multiply (ping-pong only).

Two schedules share the roles:

    cooperative   all consumers work on one output tile, each on its own rows: the largest tile, most reuse of B
    ping-pong     each consumer has output tiles of its own, in turn: while one stores, another multiplies

The grid is persistent: program p computes the output tiles p, p + programs, ... in an order that keeps a band of GROUP_M
tile rows in the L2 cache. Tiles that stick out of the matrices are TMA's business: reads give zeros, writes are dropped.
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
def load_tiles(a_desc, b_desc, a_tile, b_tile, full, m, n, k, BYTES: tl.constexpr, B_IS_NK: tl.constexpr):
    """Start the two loads of one slot."""
    tlx.barrier_expect_bytes(full, BYTES)
    tlx.async_descriptor_load(a_desc, a_tile, [m, k], full)
    if B_IS_NK:
        tlx.async_descriptor_load(b_desc, b_tile, [n, k], full)
    else:
        tlx.async_descriptor_load(b_desc, b_tile, [k, n], full)


@mimw.jit
def multiply(a_tiles, b_tiles, full, free, next_go, used, K, row: tl.constexpr, ROWS: tl.constexpr, BN: tl.constexpr,
             BK: tl.constexpr, STAGES: tl.constexpr, PING_PONG: tl.constexpr, B_IS_NK: tl.constexpr):
    """acc = sum over k of A[row : row + ROWS, k] B[k], from ring position `used` on; gives (acc, next position).

    One dot is always in flight: a slot is freed once the dot after its own has started and its own has ended. In ping-pong
    the next consumer may start when the last dot has started, so that the tensor cores never idle between tiles.
    """
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
    if PING_PONG:
        tlx.barrier_arrive(next_go)
    acc = tlx.async_dot_wait(0, acc)
    tlx.barrier_arrive(free[last])
    return acc, used


@mimw.jit
def columns(tile, piece: tl.constexpr, PIECES: tl.constexpr):
    """Column piece number `piece` of PIECES equal ones, by halving: no element changes its thread."""
    if PIECES == 1:
        return tile
    left, right = tile.reshape(tile.shape[0], 2, tile.shape[1] // 2).permute(0, 2, 1).split()
    HALF: tl.constexpr = PIECES // 2
    if piece < HALF:
        return columns(left, piece, HALF)
    return columns(right, piece - HALF, HALF)


@mimw.jit
def store(c_desc, staging, first: tl.constexpr, acc, m, n, BN: tl.constexpr, PIECES: tl.constexpr,
          STAGING: tl.constexpr):
    """Write an output tile in column pieces; a piece waits only for the store that last used its staging tile."""
    for piece in tl.static_range(PIECES):
        tile = staging[first + piece % STAGING]
        tlx.async_descriptor_store_wait(STAGING - 1)
        tlx.local_store(tile, columns(acc, piece, PIECES).to(tlx.dtype_of(c_desc)))
        tlx.fence("async_shared")
        tlx.async_descriptor_store(c_desc, tile, [m, n + piece * (BN // PIECES)])


@mimw.jit
def gemm(a_desc, b_desc, c_desc, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP_M: tl.constexpr,
         STAGES: tl.constexpr, CONSUMERS: tl.constexpr, PIECES: tl.constexpr, STAGING: tl.constexpr,
         PING_PONG: tl.constexpr, B_IS_NK: tl.constexpr):
    """C[M, N] = A[M, K] B, with B as (K, N), or as (N, K) where B_IS_NK (8-bit and tf32 inputs need that)."""
    ROWS: tl.constexpr = BM if PING_PONG else BM // CONSUMERS
    READERS: tl.constexpr = 1 if PING_PONG else CONSUMERS
    TURNS: tl.constexpr = CONSUMERS if PING_PONG else 1
    BYTES: tl.constexpr = (BM + BN) * BK * tlx.size_of(tlx.dtype_of(a_desc))

    a_tiles = tlx.local_alloc((BM, BK), tlx.dtype_of(a_desc), STAGES)
    b_tiles = tlx.local_alloc((BN, BK) if B_IS_NK else (BK, BN), tlx.dtype_of(b_desc), STAGES)
    staging = tlx.local_alloc((ROWS, BN // PIECES), tlx.dtype_of(c_desc), STAGING * CONSUMERS)
    full = tlx.alloc_barriers(STAGES)
    free = tlx.alloc_barriers(STAGES, arrive_count=READERS)
    go = tlx.alloc_barriers(CONSUMERS)

    tiles_m, tiles_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    tiles = tiles_m * tiles_n
    slots_per_tile = tl.cdiv(K, BK)

    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=240, replicate=CONSUMERS):  # consumer
            me: tl.constexpr = tlx.async_task_replica_id()
            turn: tl.constexpr = me if PING_PONG else 0
            row: tl.constexpr = 0 if PING_PONG else me * ROWS
            used = turn * slots_per_tile
            start_phase = 1 if me == 0 else 0  # the first consumer starts at once
            for tile in range(tl.program_id(0) + turn * tl.num_programs(0), tiles, TURNS * tl.num_programs(0)):
                m, n = tile_origin(tile, tiles_m, tiles_n, BM, BN, GROUP_M)
                if PING_PONG:
                    # Its turn. Also what makes parities safe: a ring phase may be waited for only if the one before is over.
                    tlx.barrier_wait(go[me], start_phase)
                    start_phase ^= 1
                acc, used = multiply(a_tiles, b_tiles, full, free, go[(me + 1) % CONSUMERS], used, K, row, ROWS, BN, BK,
                                     STAGES, PING_PONG, B_IS_NK)
                store(c_desc, staging, STAGING * me, acc, m + row, n, BN, PIECES, STAGING)
                used += (TURNS - 1) * slots_per_tile  # the other consumers' turns
            tlx.async_descriptor_store_wait(0)

        with tlx.async_task(num_warps=1, num_regs=24):  # producer
            filled = 0
            for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
                m, n = tile_origin(tile, tiles_m, tiles_n, BM, BN, GROUP_M)
                for k in range(0, K, BK):
                    slot, phase = tlx.warp_spec.get_bufidx_phase(filled, STAGES)
                    tlx.barrier_wait(free[slot], phase ^ 1)
                    load_tiles(a_desc, b_desc, a_tiles[slot], b_tiles[slot], full[slot], m, n, k, BYTES, B_IS_NK)
                    filled += 1
