"""O = softmax(scale Q K^T) V by pointers, of batches and heads that strides of 64 bits lead to; lengths that no tile divides."""
import numpy as np
import triton.language as tl

import mimw


@mimw.jit
def attention_pointers(q, k, v, o, scale, stride_z, stride_h, stride_t, H, T, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    z, h = tl.program_id(1) // H, tl.program_id(1) % H
    at = z.to(tl.int64) * stride_z + h.to(tl.int64) * stride_h
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols, ds = tl.arange(0, BN), tl.arange(0, D)
    x = tl.load(q + at + rows[:, None] * stride_t + ds[None, :], mask=rows[:, None] < T, other=0.0)
    k_at = k + at + ds[:, None] + cols[None, :] * stride_t
    v_at = v + at + cols[:, None] * stride_t + ds[None, :]
    top = tl.full((BM, ), -1.0e30, tl.float32)
    total = tl.zeros((BM, ), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for start in range(0, T, BN):
        start = tl.multiple_of(start, BN)
        y = tl.load(k_at, mask=(start + cols)[None, :] < T, other=0.0)
        s = tl.where((start + cols)[None, :] < T, tl.dot(x, y) * scale, -1.0e30)
        new = tl.maximum(top, tl.max(s, 1))
        p = tl.exp(s - new[:, None])
        fade = tl.exp(top - new)
        total = total * fade + tl.sum(p, 1)
        w = tl.load(v_at, mask=(start + cols)[:, None] < T, other=0.0)
        acc = tl.dot(p.to(w.dtype), w, acc * fade[:, None])
        top = new
        k_at += BN * stride_t
        v_at += BN * stride_t
    acc = acc / total[:, None]
    tl.store(o + at + rows[:, None] * stride_t + ds[None, :], acc.to(tl.float16), mask=rows[:, None] < T)


def case(z=2, heads=2, t=200, d=64, bm=128, bn=64, warps=8, seed=0):
    rng = np.random.default_rng(seed)
    q, k, v = (rng.standard_normal((z, heads, t, d)).astype(np.float16) for _ in range(3))
    o = np.zeros_like(q)

    def expected():
        s = np.einsum("zhtd,zhsd->zhts", q.astype(np.float32), k.astype(np.float32)) * d**-0.5
        p = np.exp(s - s.max(-1, keepdims=True))
        return np.einsum("zhts,zhsd->zhtd", p / p.sum(-1, keepdims=True), v.astype(np.float32))
    args = q, k, v, o, d**-0.5, heads * t * d, t * d, d, heads, t
    return attention_pointers, (-(-t // bm), z * heads), args, dict(BM=bm, BN=bn, D=d, num_warps=warps), (o, expected)
