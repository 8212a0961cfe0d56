"""A block-scaled GEMM on pairs of CTAs, C = A x B^T in fp32: one task loads, one multiplies, one stores.

Input: A (M, K) and B (N, K) in fp8, or fp4 packed in pairs, as descriptors; their scales packed, (1, rows / 128, K / BLOCK / 4, 2,
256). Each CTA of a pair loads its rows of A and their scales, its half of B's rows, and the scales of all of B's rows; the even CTA
multiplies for both. For example:

    (kernel, grid, args, meta), wanted = launch("e4m3", "e4m3")         mxfp8
    (kernel, grid, args, meta), wanted = launch("e2m1", "e2m1", 16)     nvfp4

Shapes: 128 rows a CTA, BN 128 or 256 columns of the pair, BK a multiple of 4 BLOCK; a grid (M / 128, N / BN) in clusters of
(2, 1, 1). PLACE: scales of a product "smem", or "copied" to tables by the task that multiplies. GUARD: only the even CTA calls the
products; else both do. MEET: bytes complete in the CTA that loads them, and the tasks that multiply meet on a barrier of the even
CTA. Mistakes that it can plant: each other switch leaves out what it names.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import triton.language as tl

import mimw
import mimw.tlx as tlx

STORED = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2, "e2m1": np.uint8}
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)


@mimw.jit
def pair_scaled_gemm(a_desc, b_desc, sa_desc, sb_desc, c_ptr, N, K, FA: tl.constexpr, FB: tl.constexpr, BLOCK: tl.constexpr,
                     BN: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr, PLACE: tl.constexpr = "smem",
                     GUARD: tl.constexpr = True, WAIT_FULL: tl.constexpr = True, WAIT_FREE: tl.constexpr = True,
                     SCALES_OF_BOTH: tl.constexpr = True, WAIT_DONE: tl.constexpr = True, COPY_FIRST: tl.constexpr = True,
                     MEET: tl.constexpr = False, ARRIVE: tl.constexpr = True):
    WA: tl.constexpr = BK // 2 if FA == "e2m1" else BK
    WB: tl.constexpr = BK // 2 if FB == "e2m1" else BK
    GROUPS: tl.constexpr = BK // BLOCK // 4
    a, b = tlx.local_alloc((128, WA), tlx.dtype_of(a_desc), STAGES), tlx.local_alloc((BN // 2, WB), tlx.dtype_of(b_desc), STAGES)
    sa = tlx.local_alloc((1, 1, GROUPS, 2, 256), tl.uint8, STAGES)
    sb = tlx.local_alloc((1, BN // 128, GROUPS, 2, 256), tl.uint8, STAGES)
    acc = tlx.local_alloc((128, BN), tl.float32, 1, tlx.storage_kind.tmem)
    if PLACE == "copied":
        ta = tlx.local_alloc((128, BK // BLOCK), tl.uint8, 1, tlx.storage_kind.tmem)
        tb = tlx.local_alloc((BN, BK // BLOCK), tl.uint8, 1, tlx.storage_kind.tmem)
    full, free, done = tlx.alloc_barriers(STAGES), tlx.alloc_barriers(STAGES), tlx.alloc_barriers(1)
    if MEET:
        ready = tlx.alloc_barriers(STAGES, arrive_count=2)
    rank = tlx.cluster_cta_rank()
    place = rank % 2
    row, column = tl.program_id(0), tl.program_id(1) * BN
    with tlx.async_tasks():
        with tlx.async_task("default"):  # store
            if WAIT_DONE:
                tlx.barrier_wait(done[0], 0)
            at = (row * 128 + tl.arange(0, 128))[:, None] * N + column + tl.arange(0, BN)[None, :]
            tl.store(c_ptr + at, tlx.local_load(acc[0]))
        with tlx.async_task(num_warps=1):  # load
            for k in range(K // BK):
                slot = k % STAGES
                if WAIT_FREE:
                    tlx.barrier_wait(free[slot], (k // STAGES) & 1 ^ 1)
                size: tl.constexpr = 128 * WA + BN // 2 * WB + (128 + BN) * BK // BLOCK
                other: tl.constexpr = 0 if SCALES_OF_BOTH else (128 + BN) * BK // BLOCK
                if MEET:
                    tlx.barrier_expect_bytes(full[slot], size)
                else:
                    tlx.barrier_expect_bytes(full[slot], 2 * size - other, pred=place == 0)
                tlx.async_descriptor_load(a_desc, a[slot], [row * 128, k * WA], full[slot], two_ctas=not MEET)
                tlx.async_descriptor_load(b_desc, b[slot], [column + place * (BN // 2), k * WB], full[slot], two_ctas=not MEET)
                if SCALES_OF_BOTH or place == 0:
                    at = k * GROUPS
                    tlx.async_descriptor_load(sa_desc, sa[slot], [0, row, at, 0, 0], full[slot], two_ctas=not MEET)
                    tlx.async_descriptor_load(sb_desc, sb[slot], [0, column // 128, at, 0, 0], full[slot], two_ctas=not MEET)
        with tlx.async_task(num_warps=1):  # multiply
            if MEET or not GUARD or place == 0:
                for k in range(K // BK):
                    slot = k % STAGES
                    if MEET:
                        tlx.barrier_wait(full[slot], (k // STAGES) & 1)
                        if ARRIVE or place == 0:
                            tlx.barrier_arrive(ready[slot], 1, remote_cta_rank=rank & ~1)
                        tlx.barrier_wait(ready[slot], (k // STAGES) & 1, pred=place == 0)
                    elif WAIT_FULL and place == 0:
                        tlx.barrier_wait(full[slot], (k // STAGES) & 1)
                    if PLACE == "copied":
                        if COPY_FIRST:
                            tlx.tmem_copy(sa[slot], ta[0])
                            tlx.tmem_copy(sb[slot], tb[0])
                        tlx.async_dot_scaled(a[slot], tlx.local_trans(b[slot]), acc[0], ta[0], FA, tb[0], FB, use_acc=k > 0,
                                             mBarriers=[free[slot]], two_ctas=True)
                    else:
                        tlx.async_dot_scaled(a[slot], tlx.local_trans(b[slot]), acc[0], sa[slot], FA, sb[slot], FB, use_acc=k > 0,
                                             mBarriers=[free[slot]], two_ctas=True)
                tlx.tcgen05_commit(done[0], two_ctas=True)


def elements(random, shape, format_):
    """Elements of a format, as the kernel has them and as fp32."""
    if format_ == "e2m1":
        codes = random.integers(0, 16, shape).astype(np.uint8)
        return codes[:, ::2] | codes[:, 1::2] << 4, E2M1[codes]
    tile = random.integers(-8, 9, shape).astype(np.float32).astype(STORED[format_])
    return tile, tile.astype(np.float32)


def scales(random, shape, block):
    """Powers of two, so that all sums are exact in fp32."""
    table = (2.0 ** random.integers(-2, 3, shape)).astype(np.float32)
    return table.astype(ml_dtypes.float8_e8m0fnu if block == 32 else ml_dtypes.float8_e4m3fn).view(np.uint8), table


def packed(table):
    """A table (rows, columns) as the tensor cores take it: blocks of 128 rows and 4 columns."""
    rows, columns = table.shape
    blocks = table.reshape(rows // 128, 4, 32, columns // 4, 4).transpose(0, 3, 2, 1, 4)
    return np.ascontiguousarray(blocks).reshape(1, rows // 128, columns // 4, 2, 256)


def launch(fa="e4m3", fb="e4m3", block=32, n=128, k=256, bn=128, bk=128, stages=2, seed=0, **switches):
    """(kernel, grid, arguments, keywords) and what the last array argument, C, has to become."""
    random = np.random.default_rng(seed)
    (a, a_wide), (b, b_wide) = elements(random, (256, k), fa), elements(random, (n, k), fb)
    (sa, sa_wide), (sb, sb_wide) = scales(random, (256, k // block), block), scales(random, (n, k // block), block)
    describe, groups = mimw.TensorDescriptor.from_tensor, bk // block // 4
    wa, wb = (bk // 2 if one == "e2m1" else bk for one in (fa, fb))
    args = (describe(a, [128, wa]), describe(b, [bn // 2, wb]), describe(packed(sa), [1, 1, groups, 2, 256]),
            describe(packed(sb), [1, bn // 128, groups, 2, 256]), np.zeros((256, n), np.float32), n, k)
    meta = dict(FA=fa, FB=fb, BLOCK=block, BN=bn, BK=bk, STAGES=stages, ctas_per_cga=(2, 1, 1), target="sm_100a", **switches)
    return ((pair_scaled_gemm, (2, n // bn), args, meta),
            (a_wide * np.repeat(sa_wide, block, 1)) @ (b_wide * np.repeat(sb_wide, block, 1)).T)
