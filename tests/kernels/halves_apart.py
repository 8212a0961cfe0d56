"""One tile of a product in `tl` words, which stock Triton makes a ping-pong of on CDNA: two halves of the waves run apart.

    a    fp16 (M, K)
    b    fp16 (K, N)
    c    fp16 (M, N), a @ b

Shapes: K a multiple of BK; M = N = 256, BK = 32 or 64 and 8 warps, with 2 stages on gfx942 and 3 on gfx950; with smaller tiles all
waves run together. The kernel is right: mistakes are planted in what Triton makes of it (benchmarks/ttgir_planted.py).
"""

import triton
import triton.language as tl


@triton.jit
def product(a, b, c, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr):
    rows, columns, ks = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    a_at, b_at = a + rows[:, None] * K + ks[None, :], b + ks[:, None] * N + columns[None, :]
    sums = tl.zeros((M, N), tl.float32)
    for _ in range(0, K, BK):
        sums = tl.dot(tl.load(a_at), tl.load(b_at), sums)
        a_at += BK
        b_at += BK * N
    tl.store(c + rows[:, None] * N + columns[None, :], sums.to(tl.float16))
