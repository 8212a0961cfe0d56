"""01  A pipelined GEMM without tasks: cp.async, wgmma, and the art of being early.

    python tutorials/01_pipelined_gemm.py        on a GPU: check, and measure against cuBLAS; elsewhere: simulate a small one

A tensor core is fast enough to wait for memory all day. The remedy is to ask for tiles before they are needed: while tile k is
multiplied, tiles k+1 .. k+STAGES-1 are on their way into shared memory. This program does so in stock Triton plus six functions:
`local_alloc`, `async_load`, `async_load_commit_group`, `async_load_wait_group`, `async_dot` and `async_dot_wait`.

The steps and the launch (`arguments`, of numpy arrays for the simulator and of torch tensors on a GPU) are here; the matrices,
the checking and the measuring are harness.py's.

Next: 02_warp_specialised_gemm.py, where copying and multiplying become two programs that run side by side.
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx


# Step 1. A tile of a matrix is a block of pointers and a mask. `async_load` starts its copy into a buffer in shared memory; every
# thread copies its part, 16 bytes at a time, and goes on at once. What the mask leaves out becomes 0, which adds nothing to a
# product: that is all the care that a K which is no multiple of BK needs.
@mimw.jit
def start_loads(a_ptrs, b_ptrs, a_tile, b_tile, k, K, stride_ak, stride_bk, BK: tl.constexpr):
    """Start the copies of A[:, k : k + BK] and B[k : k + BK, :] as one group."""
    ks = k + tl.arange(0, BK)
    tlx.async_load(a_ptrs + ks[None, :] * stride_ak, a_tile, mask=ks[None, :] < K)
    tlx.async_load(b_ptrs + ks[:, None] * stride_bk, b_tile, mask=ks[:, None] < K)
    tlx.async_load_commit_group()


@mimw.jit
def gemm(a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn, BM: tl.constexpr,
         BN: tl.constexpr, BK: tl.constexpr, GROUP_M: tl.constexpr, STAGES: tl.constexpr):
    """C[M, N] = A[M, K] B[K, N], one (BM, BN) tile a program."""
    # Step 2. Which output tile? Programs that run at the same time should share rows of A and columns of B in the L2 cache, so we
    # count down bands of GROUP_M tile rows.
    tiles_m, tiles_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    per_band = GROUP_M * tiles_n
    first = (tl.program_id(0) // per_band) * GROUP_M
    height = min(tiles_m - first, GROUP_M)
    m = (first + tl.program_id(0) % per_band % height) * BM
    n = (tl.program_id(0) % per_band // height) * BN
    # Rows past the end wrap around: they are computed from valid memory and never stored.
    rows, columns = (m + tl.arange(0, BM)) % M, (n + tl.arange(0, BN)) % N
    a_ptrs = a_ptr + rows[:, None] * stride_am
    b_ptrs = b_ptr + columns[None, :] * stride_bn

    # Step 3. The nouns: STAGES buffers for tiles of A and as many for B. You do not write their layout. The solver sees
    # that wgmma reads them and gives them the swizzled layout it wants.
    a_tiles = tlx.local_alloc((BM, BK), tlx.dtype_of(a_ptr), STAGES)
    b_tiles = tlx.local_alloc((BK, BN), tlx.dtype_of(b_ptr), STAGES)

    # Step 4. The prologue is STAGES - 1 groups ahead. A loop of no more tiles than that still commits its groups, empty ones: the
    # wait below counts groups, so their number must not depend on K.
    for stage in tl.range(0, STAGES - 1, loop_unroll_factor=STAGES - 1):
        start_loads(a_ptrs, b_ptrs, a_tiles[stage], b_tiles[stage], stage * BK, K, stride_ak, stride_bk, BK)

    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        step = k // BK
        # Step 5. Of the STAGES - 1 groups under way the oldest must be there; the other STAGES - 2 may still fly.
        tlx.async_load_wait_group(STAGES - 2)
        # Step 6. Start the product and leave one in flight: when `async_dot_wait(1)` returns, the product of the step before is
        # over, so its buffer may be overwritten, and that is where the load that is STAGES - 1 steps ahead goes.
        acc = tlx.async_dot(a_tiles[step % STAGES], b_tiles[step % STAGES], acc)
        acc = tlx.async_dot_wait(1, acc)
        ahead = step + STAGES - 1
        start_loads(a_ptrs, b_ptrs, a_tiles[ahead % STAGES], b_tiles[ahead % STAGES], ahead * BK, K, stride_ak, stride_bk, BK)

    # Step 7. The last product must be over before its registers are read, and the last copies, empty ones, before the program ends
    # and its shared memory is somebody else's. Then a plain Triton store.
    acc = tlx.async_dot_wait(0, acc)
    tlx.async_load_wait_group(0)
    rows, columns = m + tl.arange(0, BM), n + tl.arange(0, BN)
    tl.store(c_ptr + rows[:, None] * stride_cm + columns[None, :] * stride_cn, acc.to(tlx.dtype_of(c_ptr)),
             mask=(rows[:, None] < M) & (columns[None, :] < N))


def strides(matrix) -> tuple[int, int]:
    """In elements, of a numpy array or a torch tensor."""
    return tuple(step // matrix.itemsize for step in matrix.strides) if hasattr(matrix, "strides") else matrix.stride()


def arguments(a, b, c, BM=128, BN=256, BK=64, GROUP_M=8, STAGES=4, num_warps=8):
    """(grid, args, meta) of the launch that computes c = a b; numpy arrays for the simulator, torch tensors on a GPU."""
    (m, k), n = a.shape, b.shape[1]
    grid = (-(-m // BM) * -(-n // BN), )
    return grid, (a, b, c, m, n, k, *strides(a), *strides(b), *strides(c)), dict(
        BM=BM, BN=BN, BK=BK, GROUP_M=GROUP_M, STAGES=STAGES, num_warps=num_warps)


# Measured on an H200 (this program, M = N = K = 8192, fp16, torch 2.11.0, 2026-11-21; only the ratio means much):
#
#     1754.5 us 627 TFLOP/s; cuBLAS 1640.1 us 670 TFLOP/s (ratio 0.935)


def case():
    """A small product on numpy arrays, and what it should be: `mimw check 01_pipelined_gemm.py:case`."""
    import harness
    return harness.product(gemm, arguments, 128, 128, 256, BM=64, BN=64, STAGES=3, num_warps=4)


if __name__ == "__main__":
    import harness
    harness.gemm("pipelined GEMM", gemm, arguments, case)
