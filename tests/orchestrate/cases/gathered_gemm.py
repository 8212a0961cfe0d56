"""C[r] = A[r // top] B[expert of r]^T of rows that an array names: a mixture of experts, of which each tile has one's rows."""
import numpy as np
import triton.language as tl

import mimw


@mimw.jit
def gathered_gemm(a, b, c, ids, experts, count, M, N, K, stride_be, TOP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
                  BK: tl.constexpr):
    pid_m, pid_n = tl.program_id(0), tl.program_id(1)
    if pid_m * BM >= tl.load(count):
        return
    rows = tl.load(ids + pid_m * BM + tl.arange(0, BM)).to(tl.int64)
    real = rows < M
    expert = tl.load(experts + pid_m).to(tl.int64)
    cols, ks = pid_n * BN + tl.arange(0, BN), tl.arange(0, BK)
    a_at = a + (rows // TOP)[:, None] * K + ks[None, :]
    b_at = b + expert * stride_be + ks[:, None] + cols[None, :] * K
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        left = K - k * BK
        x = tl.load(a_at, mask=real[:, None] & (ks[None, :] < left), other=0.0)
        y = tl.load(b_at, mask=ks[:, None] < left, other=0.0)
        acc = tl.dot(x, y, acc)
        a_at += BK
        b_at += BK
    tl.store(c + rows[:, None] * N + cols[None, :], acc.to(c.dtype.element_ty), mask=real[:, None] & (cols[None, :] < N))


def sorted_rows(chosen, count, bm):
    """The rows of each expert in turn, in whole blocks of `bm`: (their numbers, `len(chosen)` for padding; each block's expert)."""
    ids, experts = [], []
    for expert in range(count):
        rows = np.flatnonzero(chosen == expert)
        padded = -(-len(rows) // bm) * bm
        ids.append(np.concatenate([rows, np.full(padded - len(rows), len(chosen))]))
        experts += [expert] * (padded // bm)
    return np.concatenate(ids).astype(np.int32), np.array(experts, np.int32)


def case(tokens=96, top=2, count=3, n=128, k=320, bm=128, bn=128, bk=64, seed=0):
    rng = np.random.default_rng(seed)
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((tokens, k), (count, n, k)))
    chosen = rng.integers(0, count, tokens * top)
    ids, experts = sorted_rows(chosen, count, bm)
    c = np.zeros((tokens * top, n), np.float16)
    args = a, b, c, ids, experts, np.array([len(ids)], np.int32), tokens * top, n, k, n * k

    def expected():
        rows = np.arange(tokens * top)
        return np.einsum("rk,rnk->rn", a[rows // top].astype(np.float32), b[chosen].astype(np.float32))
    return gathered_gemm, (len(experts), -(-n // bn)), args, dict(TOP=top, BM=bm, BN=bn, BK=bk, num_warps=8), (c, expected)
