"""The GEMM in stock Triton: tiles by tensor descriptors, `tl.dot` in a loop that Triton pipelines. gemm_peers.py compares with it.

    gemm[grid](a_desc, b_desc, c_desc, M, N, K, BM=128, BN=256, BK=64, GROUP_M=8, PERSISTENT=False, num_warps=8, num_stages=3)

Input: descriptors of A (M, K), B (K, N) and C (M, N), whose blocks are the tiles. Output: C = A B. A program walks over tiles by
the number of programs: a grid of one a tile is a plain launch, one a SM a PERSISTENT one, whose two loops Triton makes one.
"""

import triton
import triton.language as tl

import mimw

# What Triton users try for 16-bit GEMMs on Hopper: (BM, BN, BK, stages, warps, programs an SM; 0 is a program a tile).
# Four stages of 128 x 256 do not fit beside the tile that is stored.
CONFIGURATIONS = ((128, 256, 64, 3, 8, 0), (256, 128, 64, 3, 8, 0), (128, 128, 64, 4, 4, 0), (128, 128, 64, 4, 8, 0),
                  (128, 128, 64, 3, 4, 0), (128, 256, 64, 3, 8, 1), (256, 128, 64, 3, 8, 1), (128, 128, 64, 4, 8, 1))


@triton.jit
def gemm(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP_M: tl.constexpr,
         PERSISTENT: tl.constexpr):
    tiles_m, tiles_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    per_band = GROUP_M * tiles_n
    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, tl.num_programs(0), flatten=PERSISTENT):
        first = (tile // per_band) * GROUP_M
        height = min(tiles_m - first, GROUP_M)
        m = (first + tile % per_band % height) * BM
        n = (tile % per_band // height) * BN
        acc = tl.zeros((BM, BN), tl.float32)
        for k in range(0, K, BK):
            acc = tl.dot(a.load([m, k]), b.load([k, n]), acc)
        c.store([m, n], acc.to(c.dtype))


@mimw.jit
def by_pointers(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP_M: tl.constexpr):
    """The GEMM of Triton's tutorial: a program a tile, whose rows and columns are tiles of pointers. Extents are those of tiles."""
    tiles_m, tiles_n, tile = tl.cdiv(M, BM), tl.cdiv(N, BN), tl.program_id(0)
    per_band = GROUP_M * tiles_n
    first = (tile // per_band) * GROUP_M
    height = min(tiles_m - first, GROUP_M)
    m = (first + tile % per_band % height) * BM + tl.arange(0, BM)
    n = (tile % per_band // height) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    at_a, at_b = a + m[:, None] * K + k[None, :], b + k[:, None] * N + n[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, K, BK):
        acc = tl.dot(tl.load(at_a), tl.load(at_b), acc)
        at_a += BK
        at_b += BK * N
    tl.store(c + m[:, None] * N + n[None, :], acc.to(c.dtype.element_ty))
