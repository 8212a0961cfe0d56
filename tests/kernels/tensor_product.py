"""A product in tensor memory whose time can be worked out by hand: a producer, one warp that starts products, and a reader.

Shapes: a (M, K) and b (K, N) of 16-bit elements, out (M, N) in fp32, one program; M is 64 or 128, N and BK are multiples of 64.
No mistake can be planted.
"""

import numpy as np
import triton.language as tl

import mimw
from mimw import tlx


@mimw.jit
def tensor_product(a_desc, b_desc, out, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr):
    """out (M, N) = a (M, K) b (K, N), summed up in tensor memory over a ring of STAGES slots."""
    a_tiles = tlx.local_alloc((M, BK), tlx.dtype_of(a_desc), STAGES)
    b_tiles = tlx.local_alloc((BK, N), tlx.dtype_of(b_desc), STAGES)
    total = tlx.local_alloc((M, N), tl.float32, 1, tlx.storage_kind.tmem)
    full, free, done = tlx.alloc_barriers(STAGES), tlx.alloc_barriers(STAGES), tlx.alloc_barriers(1)
    with tlx.async_tasks():
        with tlx.async_task("default"):  # reader
            tlx.barrier_wait(done[0], 0)
            acc = tlx.local_load(total[0])
            tl.store(out + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :], acc)
        with tlx.async_task(num_warps=1):  # multiplier
            for k in range(0, tl.cdiv(K, BK)):
                slot, phase = tlx.warp_spec.get_bufidx_phase(k, STAGES)
                tlx.barrier_wait(full[slot], phase)
                tlx.async_dot(a_tiles[slot], b_tiles[slot], total[0], use_acc=k > 0, mBarriers=[free[slot]])
            tlx.tcgen05_commit(done[0])
        with tlx.async_task(num_warps=1):  # producer
            for k in range(0, tl.cdiv(K, BK)):
                slot, phase = tlx.warp_spec.get_bufidx_phase(k, STAGES)
                tlx.barrier_wait(free[slot], phase ^ 1)
                tlx.barrier_expect_bytes(full[slot], (M + N) * BK * 2)
                tlx.async_descriptor_load(a_desc, a_tiles[slot], [0, k * BK], full[slot])
                tlx.async_descriptor_load(b_desc, b_tiles[slot], [k * BK, 0], full[slot])


READS = "tlx.local_load(total"            # where the reader waits for tensor memory
WAITS = "tlx.barrier_wait(done"           # and for the last product


def tensor_product_case(k=1024, m=128, n=128, stages=4, fill=np.empty):
    """(kernel, grid, args, meta) of one program."""
    a, b, out = fill((m, k), np.float16), fill((k, n), np.float16), np.zeros((m, n), np.float32)
    describe = mimw.TensorDescriptor.from_tensor
    return tensor_product, (1, ), (describe(a, [m, 64]), describe(b, [64, n]), out, k), dict(M=m, N=n, BK=64, STAGES=stages)
