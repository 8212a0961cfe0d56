"""17  A GEMM whose K is split between two CTAs: the mesh says how matrices are spread, and the exchange follows from it.

    python tutorials/17_distributed_dot.py       on a GPU: check, and measure against cuBLAS; elsewhere: simulate a small one

A product with few output tiles and a long K leaves most SMs idle: 1024 x 1024 in tiles of 128 x 128 are 64 programs, and the GPU
has 132 SMs. The usual remedy is split-K: several programs share a tile and add up their parts in global memory, with atomics or in
a second kernel. Two CTAs of a cluster can do better, for they reach each other's shared memory.

The owner of each part, the products of parts, and the messages between CTAs are book-keeping. `tle.sharding` writes it down,
`tle.distributed_dot` and `tle.reshard` act on it. The program below is an ordinary Triton GEMM with three annotations.

The steps and the launch (`arguments`, of numpy arrays for the simulator and of torch tensors on a GPU) are here; the matrices,
the checking and the measuring are harness.py's.
"""

import triton.language as tl

import mimw
import mimw.tle as tle

# Step 1. The mesh: pairs of CTAs along an axis z, and how tensors are spread over it. Of A [M, K] and B [K, N], K is cut in two; a
# product of such parts is a partial sum along z; in the end each CTA is to have half of the rows.
PAIR = tle.device_mesh({"cluster": [("z", 2)]})
A_PARTS = tle.sharding(PAIR, split=[None, "z"])
B_PARTS = tle.sharding(PAIR, split=["z", None])
PARTIAL = tle.sharding(PAIR, split=[None, None], partial=["z"])
ROWS = tle.sharding(PAIR, split=["z", None])


@mimw.jit
def gemm(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP_M: tl.constexpr,
         STAGES: tl.constexpr):
    """C[M, N] = A[M, K] B[K, N], all row-major, one (BM, BN) tile a cluster. K is a multiple of 2 BK."""
    # Step 2. The grid counts clusters: two programs follow each other and split a tile; z numbers them.
    z, tile = tle.shard_id(PAIR, "z"), tl.program_id(0) // 2
    tiles_m, tiles_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    per_band = GROUP_M * tiles_n
    first = (tile // per_band) * GROUP_M
    height = min(tiles_m - first, GROUP_M)
    m = (first + tile % per_band % height) * BM
    n = (tile % per_band // height) * BN
    rows, columns = (m + tl.arange(0, BM)) % M, (n + tl.arange(0, BN)) % N
    half = K // 2
    ks = z * half + tl.arange(0, BK)
    a_ptrs = a_ptr + rows[:, None] * K + ks[None, :]
    b_ptrs = b_ptr + ks[:, None] * N + columns[None, :]

    # Step 3. The loop of any Triton GEMM over this CTA's half of K. The product of two tiles, both cut along z, is partial along z,
    # and so is what it is added to: no CTA sends anything, and Triton pipelines the loads as usual.
    acc = tl.zeros((BM, BN), tl.float32)
    for k in tl.range(0, half, BK, num_stages=STAGES):
        a = tle.make_sharded_tensor(tl.load(a_ptrs), A_PARTS, [BM, 2 * BK])
        b = tle.make_sharded_tensor(tl.load(b_ptrs), B_PARTS, [2 * BK, BN])
        acc = tle.distributed_dot(a, b, tle.make_sharded_tensor(acc, PARTIAL, [BM, BN])).handle
        a_ptrs += BK
        b_ptrs += BK * N

    # Step 4. From partial sums to half of the rows: a reduce-scatter. Each CTA puts its sums into shared memory, both wait, and
    # each adds up the rows that it is to have, its own part and the other's, in the same order.
    mine = tle.reshard(tle.make_sharded_tensor(acc, PARTIAL, [BM, BN]), ROWS).handle
    rows, columns = m + z * (BM // 2) + tl.arange(0, BM // 2), n + tl.arange(0, BN)
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], mine.to(c_ptr.dtype.element_ty),
             mask=(rows[:, None] < M) & (columns[None, :] < N))


def arguments(a, b, c, BM=128, BN=128, BK=64, GROUP_M=8, STAGES=4, num_warps=8):
    """(grid, args, meta) of the launch that computes c = a b; numpy arrays for the simulator, torch tensors on a GPU."""
    (m, k), n = a.shape, b.shape[1]
    assert k % (2 * BK) == 0, f"K = {k} is no multiple of two tiles of {BK}"
    return (-(-m // BM) * -(-n // BN), ), (a, b, c, m, n, k), dict(BM=BM, BN=BN, BK=BK, GROUP_M=GROUP_M, STAGES=STAGES,
                                                                   num_warps=num_warps)


# Measured on an H200 (this program, fp16):
#
#     two-CTA GEMM {'M': 1024, 'N': 1024, 'K': 16384}: 61.0 us 563 TFLOP/s; cuBLAS 53.3 us 644 TFLOP/s (ratio 0.874);
#       error 0.0e+00; NVIDIA H200, torch 2.11.0, 2026-11-21
#     two-CTA GEMM {'M': 512, 'N': 2048, 'K': 8192}: 36.8 us 466 TFLOP/s; cuBLAS 30.4 us 565 TFLOP/s (ratio 0.826); error
#       5.8e-05; NVIDIA H200, torch 2.11.0, 2026-11-21

# What if?
#   - B_PARTS does not cut K (`split=[None, None]`): refused, for the tile that is loaded is no longer what is said of it;
#   - PARTIAL is left without `partial`: refused, for `c` must be distributed as the product is;
#   - the reshard goes to `tle.sharding(PAIR)`: an all-reduce, after which both CTAs have all rows, and one of them may store them.


def case():
    """A small product on numpy arrays, and what it should be: `mimw check 17_distributed_dot.py:case`."""
    import harness
    return harness.product(gemm, arguments, 64, 64, 128, BM=32, BN=64, BK=32, num_warps=4)


if __name__ == "__main__":
    import harness
    harness.gemm("two-CTA GEMM", gemm, arguments, case, sizes=((1024, 1024, 16384), (512, 2048, 8192)))
