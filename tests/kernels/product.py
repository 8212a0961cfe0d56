"""A product whose time can be worked out by hand: one producer and one consumer of wgmma over a ring of slots.

Shapes: a (M, K) and b (K, N) of 16-bit elements, out (M, N) in fp32, one program; M, N and BK are multiples of 64.
No mistake can be planted.
"""

import numpy as np
import triton.language as tl

import mimw
from mimw import tlx


@mimw.jit
def product(a_desc, b_desc, out, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr):
    """out (M, N) = a (M, K) b (K, N), by one producer and one consumer over a ring of STAGES slots."""
    a_tiles = tlx.local_alloc((M, BK), tlx.dtype_of(a_desc), STAGES)
    b_tiles = tlx.local_alloc((BK, N), tlx.dtype_of(b_desc), STAGES)
    full = tlx.alloc_barriers(STAGES)
    free = tlx.alloc_barriers(STAGES)
    with tlx.async_tasks():
        with tlx.async_task("default"):  # consumer
            acc = tl.zeros((M, N), tl.float32)
            for k in range(0, tl.cdiv(K, BK)):
                slot, phase = tlx.warp_spec.get_bufidx_phase(k, STAGES)
                tlx.barrier_wait(full[slot], phase)
                acc = tlx.async_dot(a_tiles[slot], b_tiles[slot], acc)
                acc = tlx.async_dot_wait(0, acc)
                tlx.barrier_arrive(free[slot])
            tl.store(out + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :], acc)
        with tlx.async_task(num_warps=1):  # producer
            for k in range(0, tl.cdiv(K, BK)):
                slot, phase = tlx.warp_spec.get_bufidx_phase(k, STAGES)
                tlx.barrier_wait(free[slot], phase ^ 1)
                tlx.barrier_expect_bytes(full[slot], (M + N) * BK * 2)
                tlx.async_descriptor_load(a_desc, a_tiles[slot], [0, k * BK], full[slot])
                tlx.async_descriptor_load(b_desc, b_tiles[slot], [k * BK, 0], full[slot])


WAITS = "tlx.barrier_wait(full[slot]"     # where the consumer waits for a slot


def product_case(k=1024, m=64, n=64, stages=4, fill=np.empty):
    """(kernel, grid, args, meta) of one program."""
    a, b, out = fill((m, k), np.float16), fill((k, n), np.float16), np.zeros((m, n), np.float32)
    describe = mimw.TensorDescriptor.from_tensor
    return product, (1, ), (describe(a, [m, 64]), describe(b, [64, n]), out, k), dict(M=m, N=n, BK=64, STAGES=stages)
