"""C = A B^T + bias on pairs of CTAs, persistent, in the other published form: loads of one CTA's own, and an arrival for the pair.

Both CTAs run the same roles. Each waits for its own bytes and arrives on the even CTA's `both`, which the even one waits for
before the product; both call the product and its commits. The epilogues read parts of two accumulators in turn, add a vector
and store by descriptor. For example:

    (kernel, grid, args, meta), wanted = launch(m=256, n=128, k=64)         the last matrix of args is C

Shapes: BM 128 rows of one CTA, BN 32 to 256 columns of the pair, a grid of 2 CTAs or more, clusters of 2. It is right if all
switches are on; mistakes that it can plant: each leaves out what it names, or lets only the even CTA's epilogue be waited for.
"""

from __future__ import annotations

import numpy as np
import triton.language as tl

import mimw
import mimw.tlx as tlx


@mimw.jit
def pair_addmm(a_desc, b_desc, bias_ptr, c_desc, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
               STAGES: tl.constexpr, PARTS: tl.constexpr, ARRIVE: tl.constexpr = True, WAIT_BOTH: tl.constexpr = True,
               WAIT_OWN: tl.constexpr = True, READ_BY_BOTH: tl.constexpr = True):
    DTYPE: tl.constexpr = tlx.dtype_of(a_desc)
    PART: tl.constexpr = BN // PARTS
    a, b = tlx.local_alloc((BM, BK), DTYPE, STAGES), tlx.local_alloc((BN // 2, BK), DTYPE, STAGES)
    sums = tlx.local_alloc((BM, BN), tl.float32, 2, tlx.storage_kind.tmem)
    full, empty, both = tlx.alloc_barriers(STAGES), tlx.alloc_barriers(STAGES), tlx.alloc_barriers(STAGES, arrive_count=2)
    done, read = tlx.alloc_barriers(2), tlx.alloc_barriers(2, arrive_count=2 if READ_BY_BOTH else 1)
    rank = tlx.cluster_cta_rank()
    leader = rank % 2 == 0
    tiles_n = tl.cdiv(N, BN)
    tiles = tl.cdiv(M, 2 * BM) * tiles_n
    first, step = tl.program_id(0) // 2, tl.num_programs(0) // 2

    with tlx.async_tasks():
        with tlx.async_task("default"):  # epilogue
            turn = 0
            for tile in range(first, tiles, step):
                which, phase = tlx.warp_spec.get_bufidx_phase(turn, 2)
                row, column = tile // tiles_n * 2 * BM + rank * BM, tile % tiles_n * BN
                tlx.barrier_wait(done[which], phase)
                for part in tl.static_range(PARTS):
                    columns = column + part * PART + tl.arange(0, PART)
                    some = tlx.local_load(tlx.subslice(sums[which], part * PART, PART))
                    if part == PARTS - 1:
                        if READ_BY_BOTH:
                            tlx.barrier_arrive(read[which], 1, remote_cta_rank=0)
                        elif leader:
                            tlx.barrier_arrive(read[which])
                    some += tl.load(bias_ptr + columns, mask=columns < N, other=0.0)[None, :]
                    c_desc.store([row, column + part * PART], some.to(tlx.dtype_of(c_desc)))
                turn += 1

        with tlx.async_task(num_warps=1):  # multiply
            turn, used = 0, 0
            for _ in range(first, tiles, step):
                which, phase = tlx.warp_spec.get_bufidx_phase(turn, 2)
                tlx.barrier_wait(read[which], phase ^ 1, pred=leader)
                for k in range(0, K, BK):
                    slot, parity = tlx.warp_spec.get_bufidx_phase(used, STAGES)
                    if WAIT_OWN:
                        tlx.barrier_wait(full[slot], parity)
                    if ARRIVE:
                        tlx.barrier_arrive(both[slot], 1, remote_cta_rank=0)
                        if WAIT_BOTH:
                            tlx.barrier_wait(both[slot], parity, pred=leader)
                    tlx.async_dot(a[slot], tlx.local_trans(b[slot]), sums[which], use_acc=k > 0, mBarriers=[empty[slot]],
                                  two_ctas=True)
                    used += 1
                tlx.tcgen05_commit(done[which], two_ctas=True)
                turn += 1

        with tlx.async_task(num_warps=1):  # load
            filled = 0
            for tile in range(first, tiles, step):
                row, column = tile // tiles_n * 2 * BM + rank * BM, tile % tiles_n * BN + rank * (BN // 2)
                for k in range(0, K, BK):
                    slot, parity = tlx.warp_spec.get_bufidx_phase(filled, STAGES)
                    tlx.barrier_wait(empty[slot], parity ^ 1)
                    tlx.barrier_expect_bytes(full[slot], (BM + BN // 2) * BK * tlx.size_of(DTYPE))
                    tlx.async_descriptor_load(a_desc, a[slot], [row, k], full[slot])
                    tlx.async_descriptor_load(b_desc, b[slot], [column, k], full[slot])
                    filled += 1


def launch(m=256, n=64, k=64, bn=32, bk=16, stages=2, parts=2, programs=2, seed=0, **switches):
    """(kernel, grid, arguments, keywords) and what the last matrix, C, has to become."""
    random = np.random.default_rng(seed)
    a, b = (random.integers(-3, 4, shape).astype(np.float16) for shape in ((m, k), (n, k)))
    bias, c = random.integers(-3, 4, n).astype(np.float32), np.full((m, n), np.nan, np.float32)
    describe = mimw.TensorDescriptor.from_tensor
    args = describe(a, [128, bk]), describe(b, [bn // 2, bk]), bias, describe(c, [128, bn // parts]), m, n, k
    meta = dict(BM=128, BN=bn, BK=bk, STAGES=stages, PARTS=parts, ctas_per_cga=(2, 1, 1), target="sm_100a", **switches)
    return (pair_addmm, (programs, ), args, meta), c, a.astype(np.float32) @ b.astype(np.float32).T + bias
