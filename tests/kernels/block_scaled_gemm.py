"""A persistent GEMM of block-scaled operands for Blackwell: mxfp8, mxfp4 and nvfp4 by one kernel.

Input: A (M, K) and B (N, K) in fp8, or in fp4 packed in pairs, with a scale for each `BLOCK` elements along K, packed for the
tensor cores as (1, rows / 128, K / BLOCK / 4, 2, 256). Output: C (M, N) = A B^T in fp32. For example:

    grid, args, meta = launch("e4m3", 32, a, a_scales, b, b_scales, c)        scales e8m0: mxfp8
    grid, args, meta = launch("e2m1", 16, a, a_scales, b, b_scales, c)        scales e4m3: nvfp4

Shapes: M and N multiples of 128, K of 128. A mistake to plant: a slot of scales given back before the
commit of the product that uses it.
"""

import numpy as np
import triton.language as tl

import mimw
import mimw.tlx as tlx


@mimw.jit
def block_scaled_gemm(a_desc, b_desc, sa_desc, sb_desc, c_desc, M, N, K, FORMAT: tl.constexpr, BLOCK: tl.constexpr,
                      BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr, PARTS: tl.constexpr):
    """Tiles of C in turn, two accumulators in tensor memory; scales go from their slots to tensor memory before each product."""
    WIDTH: tl.constexpr = BK // 2 if FORMAT == "e2m1" else BK
    GROUPS: tl.constexpr = BK // BLOCK // 4
    PART: tl.constexpr = BN // PARTS
    BYTES: tl.constexpr = (BM + BN) * WIDTH + (BM + BN) * BK // BLOCK
    a_tiles = tlx.local_alloc((BM, WIDTH), tlx.dtype_of(a_desc), STAGES)
    b_tiles = tlx.local_alloc((BN, WIDTH), tlx.dtype_of(b_desc), STAGES)
    a_scales = tlx.local_alloc((1, BM // 128, GROUPS, 2, 256), tl.uint8, STAGES)
    b_scales = tlx.local_alloc((1, BN // 128, GROUPS, 2, 256), tl.uint8, STAGES)
    c_tile = tlx.local_alloc((BM, PART), tl.float32, 1)
    sums = tlx.local_alloc((BM, BN), tl.float32, 2, tlx.storage_kind.tmem)
    full, empty = tlx.alloc_barriers(STAGES), tlx.alloc_barriers(STAGES)
    done, read = tlx.alloc_barriers(2), tlx.alloc_barriers(2)
    tiles_n = tl.cdiv(N, BN)
    tiles = tl.cdiv(M, BM) * tiles_n

    with tlx.async_tasks():
        with tlx.async_task("default"):
            turn = 0
            for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
                which, phase = tlx.warp_spec.get_bufidx_phase(turn, 2)
                tlx.barrier_wait(done[which], phase)
                for part in tl.static_range(PARTS):
                    c = tlx.local_load(tlx.subslice(sums[which], part * PART, PART))
                    if part == PARTS - 1:
                        tlx.barrier_arrive(read[which])
                    tlx.async_descriptor_store_wait(0)
                    tlx.local_store(c_tile[0], c)
                    tlx.fence("async_shared")
                    tlx.async_descriptor_store(c_desc, c_tile[0], [tile // tiles_n * BM, tile % tiles_n * BN + part * PART])
                turn += 1
            tlx.async_descriptor_store_wait(0)

        with tlx.async_task(num_warps=1, num_regs=24):
            turn, used = 0, 0
            for _ in range(tl.program_id(0), tiles, tl.num_programs(0)):
                which, phase = tlx.warp_spec.get_bufidx_phase(turn, 2)
                tlx.barrier_wait(read[which], phase ^ 1)
                for k in range(0, K, BK):
                    slot, parity = tlx.warp_spec.get_bufidx_phase(used, STAGES)
                    tlx.barrier_wait(full[slot], parity)
                    tlx.async_dot_scaled(a_tiles[slot], tlx.local_trans(b_tiles[slot]), sums[which], a_scales[slot], FORMAT,
                                         b_scales[slot], FORMAT, use_acc=k > 0, mBarriers=[empty[slot]])
                    used += 1
                tlx.tcgen05_commit(done[which])
                turn += 1

        with tlx.async_task(num_warps=1, num_regs=24):
            filled = 0
            for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
                m, n = tile // tiles_n * BM, tile % tiles_n * BN
                for k in range(0, tl.cdiv(K, BK)):
                    slot, parity = tlx.warp_spec.get_bufidx_phase(filled, STAGES)
                    tlx.barrier_wait(empty[slot], parity ^ 1)
                    tlx.barrier_expect_bytes(full[slot], BYTES)
                    tlx.async_descriptor_load(a_desc, a_tiles[slot], [m, k * WIDTH], full[slot])
                    tlx.async_descriptor_load(b_desc, b_tiles[slot], [n, k * WIDTH], full[slot])
                    tlx.async_descriptor_load(sa_desc, a_scales[slot], [0, m // 128, k * GROUPS, 0, 0], full[slot])
                    tlx.async_descriptor_load(sb_desc, b_scales[slot], [0, n // 128, k * GROUPS, 0, 0], full[slot])
                    filled += 1


def packed(scales: np.ndarray) -> np.ndarray:
    """A table of scales (rows, columns) as the tensor cores take it."""
    rows, columns = scales.shape
    blocks = scales.reshape(rows // 128, 4, 32, columns // 4, 4).transpose(0, 3, 2, 1, 4)
    return np.ascontiguousarray(blocks).reshape(1, rows // 128, columns // 4, 2, 256)


def launch(format_, block, a, a_scales, b, b_scales, c, programs=2, BM=128, BN=128, BK=256, STAGES=3, PARTS=4):
    """(grid, args, meta) of the launch that computes c = a b^T; scales packed."""
    describe, width = mimw.TensorDescriptor.from_tensor, BK // 2 if format_ == "e2m1" else BK
    groups = BK // block // 4
    args = (describe(a, [BM, width]), describe(b, [BN, width]), describe(a_scales, [1, BM // 128, groups, 2, 256]),
            describe(b_scales, [1, BN // 128, groups, 2, 256]), describe(c, [BM, BN // PARTS]), c.shape[0], c.shape[1],
            a.shape[1] * (2 if format_ == "e2m1" else 1))
    return (programs, ), args, dict(FORMAT=format_, BLOCK=block, BM=BM, BN=BN, BK=BK, STAGES=STAGES, PARTS=PARTS)
