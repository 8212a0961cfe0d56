"""A GEMM on pairs of CTAs, C = A x B^T, in the published shape: one task loads, one multiplies, one stores.

Each CTA of a pair loads its rows of A and its half of B's rows; the even CTA multiplies for both, each stores its rows of C.

    pair_gemm(a_desc, b_desc, c, N, K, BM, BN, BK, STAGES)      a (M, K) in blocks [BM, BK]; b (N, K) in [BN / 2, BK]; c (M, N)

Shapes: BM 64 or 128 rows of one CTA, BN 32 to 256 columns of the pair; a grid (M / BM, N / BN), and clusters
of 2 along its first axis, or of 4. GUARD: only the even CTA calls the products; else both do. Mistakes that it can plant: each
other switch leaves out what it names.
"""

from __future__ import annotations

import numpy as np
import triton.language as tl

import mimw
import mimw.tlx as tlx


@mimw.jit
def pair_gemm(a_desc, b_desc, c_ptr, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr,
              GUARD: tl.constexpr = True, WAIT_FULL: tl.constexpr = True, WAIT_FREE: tl.constexpr = True,
              RELEASE: tl.constexpr = True, COMMIT_BOTH: tl.constexpr = True, BYTES_OF_BOTH: tl.constexpr = True,
              ENDING_SYNC: tl.constexpr = True, WAIT_DONE: tl.constexpr = True):
    element = tlx.dtype_of(a_desc)
    a, b = tlx.local_alloc((BM, BK), element, STAGES), tlx.local_alloc((BN // 2, BK), element, STAGES)
    acc = tlx.local_alloc((BM, BN), tl.float32, 1, tlx.storage_kind.tmem)
    full, free, done = tlx.alloc_barriers(STAGES), tlx.alloc_barriers(STAGES), tlx.alloc_barriers(1)
    place = tlx.cluster_cta_rank() % 2
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    with tlx.async_tasks(no_ending_cluster_sync=not ENDING_SYNC):
        with tlx.async_task("default"):  # store
            if WAIT_DONE:
                tlx.barrier_wait(done[0], 0)
            at = (row + tl.arange(0, BM))[:, None] * N + column + tl.arange(0, BN)[None, :]
            tl.store(c_ptr + at, tlx.local_load(acc[0]))
        with tlx.async_task(num_warps=1):  # load
            for k in range(K // BK):
                slot = k % STAGES
                if WAIT_FREE:
                    tlx.barrier_wait(free[slot], (k // STAGES) & 1 ^ 1)
                size: tl.constexpr = (BM + BN // 2) * BK * tlx.size_of(element)
                tlx.barrier_expect_bytes(full[slot], 2 * size if BYTES_OF_BOTH else size, pred=place == 0)
                tlx.async_descriptor_load(a_desc, a[slot], [row, k * BK], full[slot], two_ctas=True)
                tlx.async_descriptor_load(b_desc, b[slot], [column + place * (BN // 2), k * BK], full[slot], two_ctas=True)
        with tlx.async_task(num_warps=1):  # multiply
            if not GUARD or place == 0:
                for k in range(K // BK):
                    slot = k % STAGES
                    if WAIT_FULL and place == 0:
                        tlx.barrier_wait(full[slot], (k // STAGES) & 1)
                    if RELEASE:
                        tlx.async_dot(a[slot], tlx.local_trans(b[slot]), acc[0], use_acc=k > 0, mBarriers=[free[slot]],
                                      two_ctas=True)
                    else:
                        tlx.async_dot(a[slot], tlx.local_trans(b[slot]), acc[0], use_acc=k > 0, two_ctas=True, force_async=True)
                tlx.tcgen05_commit(done[0], two_ctas=COMMIT_BOTH)


def launch(m=256, n=64, k=64, bm=128, bn=64, bk=16, stages=2, dtype=np.float16, cluster=(2, 1, 1), seed=0, **switches):
    """(kernel, grid, arguments, keywords) and what the last argument, C, has to become."""
    random = np.random.default_rng(seed)
    a, b = (random.integers(-3, 4, shape).astype(dtype) for shape in ((m, k), (n, k)))
    describe = mimw.TensorDescriptor.from_tensor
    args = describe(a, [bm, bk]), describe(b, [bn // 2, bk]), np.zeros((m, n), np.float32), n, k
    meta = dict(BM=bm, BN=bn, BK=bk, STAGES=stages, ctas_per_cga=cluster, target="sm_100a", **switches)
    return (pair_gemm, (m // bm, n // bn), args, meta), a.astype(np.float32) @ b.astype(np.float32).T
