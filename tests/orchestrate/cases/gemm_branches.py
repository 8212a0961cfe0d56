"""C = A B by descriptors that the kernel makes where its tile divides all sizes, and by pointers where it does not; as libraries
write it that take whatever comes."""
import numpy as np
import triton.language as tl

import mimw


@mimw.jit
def gemm_branches(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    if M % BM == 0 and N % BN == 0 and K % BK == 0:
        a_desc = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
        b_desc = tl.make_tensor_descriptor(b, [K, N], [N, 1], [BK, BN])
        c_desc = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
        acc = tl.zeros((BM, BN), tl.float32)
        for k in range(0, K, BK):
            acc = tl.dot(a_desc.load([m, k]), b_desc.load([k, n]), acc)
        c_desc.store([m, n], acc.to(tl.float16))
    else:
        rows, cols, ks = m + tl.arange(0, BM), n + tl.arange(0, BN), tl.arange(0, BK)
        acc = tl.zeros((BM, BN), tl.float32)
        for k in range(0, K, BK):
            x = tl.load(a + rows[:, None] * K + k + ks[None, :], mask=(rows[:, None] < M) & (k + ks[None, :] < K), other=0.0)
            y = tl.load(b + (k + ks[:, None]) * N + cols[None, :], mask=(k + ks[:, None] < K) & (cols[None, :] < N), other=0.0)
            acc = tl.dot(x, y, acc)
        tl.store(c + rows[:, None] * N + cols[None, :], acc.to(tl.float16), mask=(rows[:, None] < M) & (cols[None, :] < N))


def case(m=128, n=128, k=192, bm=64, bn=64, bk=64, seed=0):
    rng = np.random.default_rng(seed)
    a, b = (rng.standard_normal(s).astype(np.float16) for s in ((m, k), (k, n)))
    c = np.zeros((m, n), np.float16)
    return gemm_branches, (-(-m // bm), -(-n // bn)), (a, b, c, m, n, k), dict(BM=bm, BN=bn, BK=bk, num_warps=4), (
        c, lambda: a.astype(np.float32) @ b.astype(np.float32))
