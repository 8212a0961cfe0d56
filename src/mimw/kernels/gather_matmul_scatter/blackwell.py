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
import mimw.tle as tle
import mimw.tlx as tlx

from ..gemm.operands import Operands
from ..gemm.sources import OneMatrix
from ..gemm.tiles import Problem
from ..ring_of_tiles import Ring
from .kernel import rows_for


@tle.struct
class Accumulators:
    """Two in tensor memory, and the barriers by which they are done and taken."""
    sums: tlx.buffered_tensor
    done: tlx.mbarrier
    taken: tlx.mbarrier


@mimw.jit
def load(ring, operands, source, numbers):
    """Picked rows of A, and tiles of B, along K, for one output tile of this program after the other."""
    BM: tl.constexpr = source.tiles.BM
    BYTES: tl.constexpr = (BM + source.tiles.BN) * source.tiles.BK * tlx.size_of(tlx.dtype_of(operands.a_desc))
    step = 0
    for tile in range(tl.program_id(0), source.count(), tl.num_programs(0)):
        place = source.at(tile)
        at = place.m + tl.arange(0, BM)
        rows = tl.load(numbers + at, mask=at < source.problem.M, other=-1)      # row -1 reads zeros
        for k in range(0, source.problem.K, source.tiles.BK):
            slot, phase = step % ring.STAGES, (step // ring.STAGES) & 1
            tlx.barrier_wait(ring.free[slot], phase ^ 1)
            tlx.barrier_expect_bytes(ring.full[slot], BYTES)
            at_b = [place.n, k] if operands.B_IS_NK else [k, place.n]
            tlx.async_descriptor_load(operands.b_desc, ring.b[slot], at_b, ring.full[slot])
            tlx.async_descriptor_gather(operands.a_desc, ring.a[slot], rows, k, ring.full[slot])
            step += 1


@mimw.jit
def multiply(ring, acc, source):
    """The products of each output tile into the accumulators in turn."""
    step = 0
    turn = 0
    for _ in range(tl.program_id(0), source.count(), tl.num_programs(0)):
        into = turn % 2
        tlx.barrier_wait(acc.taken[into], ((turn // 2) & 1) ^ 1)
        for k in range(0, source.problem.K, source.tiles.BK):
            slot, phase = step % ring.STAGES, (step // ring.STAGES) & 1
            tlx.barrier_wait(ring.full[slot], phase)
            b = tlx.local_trans(ring.b[slot]) if source.tiles.B_IS_NK else ring.b[slot]
            tlx.async_dot(ring.a[slot], b, acc.sums[into], use_acc=k > 0, mBarriers=[ring.free[slot]])
            step += 1
        tlx.tcgen05_commit(acc.done[into])
        turn += 1


@mimw.jit
def store(acc, staging, c_desc, source, numbers, C_ROWS):
    """Send the rows of each output tile where they belong, in column pieces."""
    PIECES: tl.constexpr = source.tiles.PIECES
    STAGING: tl.constexpr = source.tiles.STAGING
    WIDTH: tl.constexpr = source.tiles.BN // PIECES
    turn = 0
    for tile in range(tl.program_id(0), source.count(), tl.num_programs(0)):
        place = source.at(tile)
        rows = rows_for(numbers, place.m, source.problem.M, source.tiles.BM, C_ROWS)
        tlx.barrier_wait(acc.done[turn % 2], (turn // 2) & 1)
        for piece in tl.static_range(PIECES):
            found = tlx.local_load(tlx.subslice(acc.sums[turn % 2], piece * WIDTH, WIDTH))
            if piece == PIECES - 1:
                tlx.barrier_arrive(acc.taken[turn % 2])
            tlx.async_descriptor_store_wait(STAGING - 1)
            tlx.local_store(staging[piece % STAGING], found.to(tlx.dtype_of(c_desc)))
            tlx.fence("async_shared")
            tlx.async_descriptor_scatter(c_desc, staging[piece % STAGING], rows, place.n + piece * WIDTH)
        turn += 1
    tlx.async_descriptor_store_wait(0)


@mimw.jit
def gather_matmul_scatter_blackwell(a_desc, b_desc, c_desc, source_ptr, target_ptr, R, N, K, C_ROWS, FORM: tl.constexpr,
                                    LOAD_WARPS: tl.constexpr):
    """C[target[i], :] = A[source[i], :] B for i < R, with B as (K, N), or as (N, K) where B_IS_NK."""
    tiles = FORM.tiles
    STAGES: tl.constexpr = FORM.STAGES
    a_tiles = tlx.local_alloc((tiles.BM, tiles.BK), tlx.dtype_of(a_desc), STAGES)
    b_tiles = tlx.local_alloc((tiles.BN, tiles.BK) if tiles.B_IS_NK else (tiles.BK, tiles.BN), tlx.dtype_of(b_desc), STAGES)
    sums = tlx.local_alloc((tiles.BM, tiles.BN), tl.float32, 2, tlx.storage_kind.tmem)
    staging = tlx.local_alloc((tiles.BM, tiles.BN // tiles.PIECES), tlx.dtype_of(c_desc), tiles.STAGING)
    ring = Ring(a_tiles, b_tiles, tlx.alloc_barriers(STAGES), tlx.alloc_barriers(STAGES), STAGES)
    acc = Accumulators(sums, tlx.alloc_barriers(2), tlx.alloc_barriers(2))
    operands, source = Operands(a_desc, b_desc, tiles.B_IS_NK), OneMatrix(Problem(R, N, K), tiles)

    with tlx.async_tasks():
        with tlx.async_task("default"):
            store(acc, staging, c_desc, source, target_ptr, C_ROWS)
        with tlx.async_task(num_warps=1, num_regs=64):
            multiply(ring, acc, source)
        # Each loading warp has its share of the row numbers, the same in all lanes.
        with tlx.async_task(num_warps=LOAD_WARPS, num_regs=168 if LOAD_WARPS == 1 else 96):
            load(ring, operands, source, source_ptr)
