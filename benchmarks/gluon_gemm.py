"""The cooperative schedule of `mimw.kernels.gemm`, written in Gluon: the same roles, tiles, barriers and stores.

It is what the compile-time benchmark compares with, so it does the same work and nothing else: B is (K, N), one producer warp,
two consumers of BM / 2 rows each, an epilogue in column pieces through two staging tiles.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma, warpgroup_mma, warpgroup_mma_wait


@gluon.jit
def tile_origin(tile, tiles_m, tiles_n, BM: gl.constexpr, BN: gl.constexpr, GROUP_M: gl.constexpr):
    per_band = GROUP_M * tiles_n
    first = (tile // per_band) * GROUP_M
    height = min(tiles_m - first, GROUP_M)
    within = tile % per_band
    return (first + within % height) * BM, (within // height) * BN


@gluon.jit
def columns(acc, piece: gl.constexpr, PIECES: gl.constexpr):
    if PIECES == 1:
        return acc
    else:
        left, right = acc.reshape(acc.shape[0], 2, acc.shape[1] // 2).permute(0, 2, 1).split()
        HALF: gl.constexpr = PIECES // 2
        if piece < HALF:
            return columns(left, piece, HALF)
        else:
            return columns(right, piece - HALF, HALF)


@gluon.jit
def consume(c_desc, a_tiles, b_tiles, staging, full, free, M, N, K, me: gl.constexpr, BM: gl.constexpr, BN: gl.constexpr,
            BK: gl.constexpr, GROUP_M: gl.constexpr, STAGES: gl.constexpr, CONSUMERS: gl.constexpr, PIECES: gl.constexpr):
    ROWS: gl.constexpr = BM // CONSUMERS
    WIDTH: gl.constexpr = BN // PIECES
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BN, 16])
    tiles_m, tiles_n = gl.cdiv(M, BM), gl.cdiv(N, BN)
    used = 0
    for tile in range(gl.program_id(0), tiles_m * tiles_n, gl.num_programs(0)):
        m, n = tile_origin(tile, tiles_m, tiles_n, BM, BN, GROUP_M)
        acc = gl.zeros((ROWS, BN), gl.float32, layout)
        last = used * 0
        for k in range(0, K, BK):
            slot, phase = used % STAGES, (used // STAGES) & 1
            mbarrier.wait(full.index(slot), phase)
            acc = warpgroup_mma(a_tiles.index(slot).slice(me * ROWS, ROWS), b_tiles.index(slot), acc, is_async=True)
            acc = warpgroup_mma_wait(1, deps=(acc, ))
            mbarrier.arrive(free.index(last), pred=k > 0)
            last = slot
            used += 1
        acc = warpgroup_mma_wait(0, deps=(acc, ))
        mbarrier.arrive(free.index(last))
        for piece in gl.static_range(PIECES):
            out = staging.index(me * 2 + piece % 2)
            tma.store_wait(1)
            out.store(columns(acc, piece, PIECES).to(c_desc.dtype))
            fence_async_shared()
            tma.async_store(c_desc, [m + me * ROWS, n + piece * WIDTH], out)
    tma.store_wait(0)


@gluon.jit
def produce(a_desc, b_desc, a_tiles, b_tiles, full, free, M, N, K, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr,
            GROUP_M: gl.constexpr, STAGES: gl.constexpr):
    tiles_m, tiles_n = gl.cdiv(M, BM), gl.cdiv(N, BN)
    filled = 0
    for tile in range(gl.program_id(0), tiles_m * tiles_n, gl.num_programs(0)):
        m, n = tile_origin(tile, tiles_m, tiles_n, BM, BN, GROUP_M)
        for k in range(0, K, BK):
            slot, phase = filled % STAGES, (filled // STAGES) & 1
            mbarrier.wait(free.index(slot), phase ^ 1)
            mbarrier.expect(full.index(slot), a_desc.nbytes_per_cta + b_desc.nbytes_per_cta)
            tma.async_load(a_desc, [m, k], full.index(slot), a_tiles.index(slot))
            tma.async_load(b_desc, [k, n], full.index(slot), b_tiles.index(slot))
            filled += 1


@gluon.jit
def gemm(a_desc, b_desc, c_desc, M, N, K, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr, GROUP_M: gl.constexpr,
         STAGES: gl.constexpr, CONSUMERS: gl.constexpr, PIECES: gl.constexpr):
    """C[M, N] = A[M, K] B[K, N] with 4 warps in the default task and two consumers."""
    a_tiles = gl.allocate_shared_memory(a_desc.dtype, [STAGES, BM, BK], a_desc.layout)
    b_tiles = gl.allocate_shared_memory(b_desc.dtype, [STAGES, BK, BN], b_desc.layout)
    staging = gl.allocate_shared_memory(c_desc.dtype, [2 * CONSUMERS, BM // CONSUMERS, BN // PIECES], c_desc.layout)
    full = mbarrier.allocate_mbarrier(batch=STAGES)
    free = mbarrier.allocate_mbarrier(batch=STAGES)
    for slot in gl.static_range(STAGES):
        mbarrier.init(full.index(slot), count=1)
        mbarrier.init(free.index(slot), count=CONSUMERS)
    gl.warp_specialize([
        (consume, (c_desc, a_tiles, b_tiles, staging, full, free, M, N, K, 0, BM, BN, BK, GROUP_M, STAGES, CONSUMERS, PIECES)),
        (consume, (c_desc, a_tiles, b_tiles, staging, full, free, M, N, K, 1, BM, BN, BK, GROUP_M, STAGES, CONSUMERS, PIECES)),
        (produce, (a_desc, b_desc, a_tiles, b_tiles, full, free, M, N, K, BM, BN, BK, GROUP_M, STAGES)),
    ], [4, 1], [240, 24])
