"""A GEMM of two pairs of CTAs that share B, C = A x B^T in fp32: one CTA of each place in its pair loads B for both pairs.

Input: A (4 BM, K) and B (N, K) as descriptors with blocks [BM, BK] and [N / 2, BK]. Output: C (4 BM, N). For example:

    (kernel, grid, args, meta), wanted = launch()

Shapes: one cluster of (4, 1, 1), K of at most STAGES blocks, so no slot is used twice. HANDED: the loop hands the descriptor
of B on. Mistakes that it can plant: BYTES_OF_ALL counts the bytes of one CTA of each pair, WAIT_FULL multiplies before they
are there, BOTH_PAIRS leaves the second pair without B.
"""

from __future__ import annotations

import numpy as np
import triton.language as tl

import mimw
import mimw.tlx as tlx


@mimw.jit
def pair_multicast_gemm(a_desc, b_desc, c_ptr, K, BM: tl.constexpr, N: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr,
                        HANDED: tl.constexpr = False, BYTES_OF_ALL: tl.constexpr = True, WAIT_FULL: tl.constexpr = True,
                        BOTH_PAIRS: tl.constexpr = True):
    a, b = tlx.local_alloc((BM, BK), tl.float16, STAGES), tlx.local_alloc((N // 2, BK), tl.float16, STAGES)
    acc = tlx.local_alloc((BM, N), tl.float32, 1, tlx.storage_kind.tmem)
    full, done = tlx.alloc_barriers(STAGES), tlx.alloc_barriers(1)
    rank = tlx.cluster_cta_rank()
    place = rank % 2
    with tlx.async_tasks():
        with tlx.async_task("default"):  # store
            tlx.barrier_wait(done[0], 0)
            at = (rank * BM + tl.arange(0, BM))[:, None] * N + tl.arange(0, N)[None, :]
            tl.store(c_ptr + at, tlx.local_load(acc[0]))
        with tlx.async_task(num_warps=1):  # load
            size: tl.constexpr = (BM + N // 2) * BK * 2
            for k in range(K // BK):
                tlx.barrier_expect_bytes(full[k], 2 * size if BYTES_OF_ALL else size, pred=place == 0)
                tlx.async_descriptor_load(a_desc, a[k], [rank * BM, k * BK], full[k], two_ctas=True)
            if rank < 2:
                from_ = b_desc
                for k in range(K // BK):
                    if HANDED:
                        if k > 0:
                            from_ = b_desc
                    if BOTH_PAIRS:
                        tlx.async_descriptor_load(from_, b[k], [place * (N // 2), k * BK], full[k], two_ctas=True,
                                                  multicast_targets=[place, place + 2], eviction_policy="evict_last")
                    else:
                        tlx.async_descriptor_load(from_, b[k], [place * (N // 2), k * BK], full[k], two_ctas=True,
                                                  multicast_targets=[place])
        with tlx.async_task(num_warps=1):  # multiply
            for k in range(K // BK):
                if WAIT_FULL and place == 0:
                    tlx.barrier_wait(full[k], 0)
                tlx.async_dot(a[k], tlx.local_trans(b[k]), acc[0], use_acc=k > 0, two_ctas=True, force_async=True)
            tlx.tcgen05_commit(done[0], two_ctas=True)


def launch(bm=64, n=32, k=32, bk=16, stages=2, seed=0, **switches):
    """(kernel, grid, arguments, keywords) and what C has to become."""
    random = np.random.default_rng(seed)
    a, b = (random.integers(-3, 4, shape).astype(np.float16) for shape in ((4 * bm, k), (n, k)))
    describe = mimw.TensorDescriptor.from_tensor
    args = describe(a, [bm, bk]), describe(b, [n // 2, bk]), np.zeros((4 * bm, n), np.float32), k
    meta = dict(BM=bm, N=n, BK=bk, STAGES=stages, ctas_per_cga=(4, 1, 1), target="sm_100a", **switches)
    return (pair_multicast_gemm, (4, ), args, meta), a.astype(np.float32) @ b.astype(np.float32).T
