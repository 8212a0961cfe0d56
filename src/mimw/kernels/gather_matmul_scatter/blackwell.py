"""`C[to] = A[from] B` on Blackwell: four rows an instruction come by TMA, products stay in tensor memory, rows leave by TMA.

Input: descriptors of A, B and C, the row numbers, and sizes. Output: rows of C are written. For example:

    grid, args, meta = arguments(a, b, c, source, target, programs, blackwell=True)
    gather_matmul_scatter_blackwell[grid](*args, **meta)

Nouns: rings of STAGES tiles of picked rows of A and of B, two accumulators in tensor memory, STAGING tiles for rows on their way
out. Roles, each a task: `load` of LOAD_WARPS warps, which share out the rows, `multiply` of one, and `store`, which takes one
accumulator while `multiply` fills the other. A slot is free when the products that read it are done: their commit arrives for it.
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx

from ..gemm.kernel import output_tiles, tile_origin


@mimw.jit
def load(a_tiles, b_tiles, full, free, a_desc, b_desc, source_ptr, R, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
         GROUP_M: tl.constexpr, STAGES: tl.constexpr, B_IS_NK: tl.constexpr):
    """Picked rows of A, and tiles of B, along K, for one output tile of this program after the other."""
    BYTES: tl.constexpr = (BM + BN) * BK * tlx.size_of(tlx.dtype_of(a_desc))
    step = 0
    for tile in range(tl.program_id(0), output_tiles(R, N, BM, BN), tl.num_programs(0)):
        m, n = tile_origin(tile, R, N, BM, BN, GROUP_M)
        at = m + tl.arange(0, BM)
        rows = tl.load(source_ptr + at, mask=at < R, other=-1)      # row -1 reads zeros
        for k in range(0, K, BK):
            slot, phase = step % STAGES, (step // STAGES) & 1
            tlx.barrier_wait(free[slot], phase ^ 1)
            tlx.barrier_expect_bytes(full[slot], BYTES)
            tlx.async_descriptor_load(b_desc, b_tiles[slot], [n, k] if B_IS_NK else [k, n], full[slot])
            tlx.async_descriptor_gather(a_desc, a_tiles[slot], rows, k, full[slot])
            step += 1


@mimw.jit
def multiply(a_tiles, b_tiles, full, free, acc, done, taken, R, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
             STAGES: tl.constexpr, B_IS_NK: tl.constexpr):
    """The products of each output tile into the accumulators in turn."""
    step = 0
    turn = 0
    for _ in range(tl.program_id(0), output_tiles(R, N, BM, BN), tl.num_programs(0)):
        into = turn % 2
        tlx.barrier_wait(taken[into], ((turn // 2) & 1) ^ 1)
        for k in range(0, K, BK):
            slot, phase = step % STAGES, (step // STAGES) & 1
            tlx.barrier_wait(full[slot], phase)
            b = tlx.local_trans(b_tiles[slot]) if B_IS_NK else b_tiles[slot]
            tlx.async_dot(a_tiles[slot], b, acc[into], use_acc=k > 0, mBarriers=[free[slot]])
            step += 1
        tlx.tcgen05_commit(done[into])
        turn += 1


@mimw.jit
def store(acc, done, taken, staging, c_desc, target_ptr, R, N, C_ROWS, BM: tl.constexpr, BN: tl.constexpr, GROUP_M: tl.constexpr,
          PIECES: tl.constexpr, STAGING: tl.constexpr):
    """Send the rows of each output tile where they belong, in column pieces."""
    WIDTH: tl.constexpr = BN // PIECES
    turn = 0
    for tile in range(tl.program_id(0), output_tiles(R, N, BM, BN), tl.num_programs(0)):
        m, n = tile_origin(tile, R, N, BM, BN, GROUP_M)
        at = m + tl.arange(0, BM)
        rows = tl.load(target_ptr + at, mask=at < R, other=C_ROWS)
        rows = tl.where(rows < 0, C_ROWS, rows)                     # TMA leaves out what is behind the end, not what is before
        tlx.barrier_wait(done[turn % 2], (turn // 2) & 1)
        for piece in tl.static_range(PIECES):
            found = tlx.local_load(tlx.subslice(acc[turn % 2], piece * WIDTH, WIDTH))
            if piece == PIECES - 1:
                tlx.barrier_arrive(taken[turn % 2])
            tlx.async_descriptor_store_wait(STAGING - 1)
            tlx.local_store(staging[piece % STAGING], found.to(tlx.dtype_of(c_desc)))
            tlx.fence("async_shared")
            tlx.async_descriptor_scatter(c_desc, staging[piece % STAGING], rows, n + piece * WIDTH)
        turn += 1
    tlx.async_descriptor_store_wait(0)


@mimw.jit
def gather_matmul_scatter_blackwell(a_desc, b_desc, c_desc, source_ptr, target_ptr, R, N, K, C_ROWS, BM: tl.constexpr,
                                    BN: tl.constexpr, BK: tl.constexpr, GROUP_M: tl.constexpr, STAGES: tl.constexpr,
                                    PIECES: tl.constexpr, STAGING: tl.constexpr, B_IS_NK: tl.constexpr, LOAD_WARPS: tl.constexpr):
    """C[target[i], :] = A[source[i], :] B for i < R, with B as (K, N), or as (N, K) where B_IS_NK."""
    a_tiles = tlx.local_alloc((BM, BK), tlx.dtype_of(a_desc), STAGES)
    b_tiles = tlx.local_alloc((BN, BK) if B_IS_NK else (BK, BN), tlx.dtype_of(b_desc), STAGES)
    acc = tlx.local_alloc((BM, BN), tl.float32, 2, tlx.storage_kind.tmem)
    staging = tlx.local_alloc((BM, BN // PIECES), tlx.dtype_of(c_desc), STAGING)
    full, free = tlx.alloc_barriers(STAGES), tlx.alloc_barriers(STAGES)
    done, taken = tlx.alloc_barriers(2), tlx.alloc_barriers(2)

    with tlx.async_tasks():
        with tlx.async_task("default"):
            store(acc, done, taken, staging, c_desc, target_ptr, R, N, C_ROWS, BM, BN, GROUP_M, PIECES, STAGING)
        with tlx.async_task(num_warps=1, num_regs=64):
            multiply(a_tiles, b_tiles, full, free, acc, done, taken, R, N, K, BM, BN, BK, STAGES, B_IS_NK)
        # Each loading warp has its share of the row numbers, the same in all lanes.
        with tlx.async_task(num_warps=LOAD_WARPS, num_regs=168 if LOAD_WARPS == 1 else 96):
            load(a_tiles, b_tiles, full, free, a_desc, b_desc, source_ptr, R, N, K, BM, BN, BK, GROUP_M, STAGES, B_IS_NK)
