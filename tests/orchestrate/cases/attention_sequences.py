"""Attention over sequences of different lengths that lie one behind the other: arrays say where each begins, and how long it is."""
import numpy as np
import triton.language as tl

import mimw


@mimw.jit
def attention_sequences(q, k, v, out, starts, lengths, scale, stride, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    start, length = tl.load(starts + tl.program_id(0)), tl.load(lengths + tl.program_id(0))
    rows, cols, ds = tl.program_id(1) * BM + tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, D)
    at = (start + rows)[:, None] * stride + ds[None, :]
    x = tl.load(q + at, mask=rows[:, None] < length, other=0.0)
    m, total, acc = tl.full((BM, ), -1e30, tl.float32), tl.zeros((BM, ), tl.float32), tl.zeros((BM, D), tl.float32)
    end = tl.where(tl.program_id(1) * BM < length, length, 0)
    for first in range(0, end, BN):
        keys = first + cols
        y = tl.load(k + (start + keys)[None, :] * stride + ds[:, None], mask=keys[None, :] < length, other=0.0)
        s = tl.where(keys[None, :] < length, tl.dot(x, y) * scale, -1e30)
        new = tl.maximum(m, tl.max(s, 1))
        p = tl.exp2(s - new[:, None])
        factor = tl.exp2(m - new)
        total = total * factor + tl.sum(p, 1)
        z = tl.load(v + (start + keys)[:, None] * stride + ds[None, :], mask=keys[:, None] < length, other=0.0)
        acc = tl.dot(p.to(tl.float16), z, acc * factor[:, None])
        m = new
    tl.store(out + at, (acc / total[:, None]).to(tl.float16), mask=rows[:, None] < length)


def case(lengths=(320, 77, 200), bm=128, bn=64, d=64, seed=0):
    rng = np.random.default_rng(seed)
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int32)
    q, k, v = (rng.standard_normal((sum(lengths), d)).astype(np.float16) for _ in range(3))
    out = np.zeros_like(q)
    args = q, k, v, out, starts, np.array(lengths, np.int32), float(d ** -0.5 * np.log2(np.e)), d

    def expected():
        found = np.zeros(q.shape, np.float32)
        for start, length in zip(starts, lengths):
            x, y, z = (one[start:start + length].astype(np.float32) for one in (q, k, v))
            s = np.exp(x @ y.T * d ** -0.5)
            found[start:start + length] = s @ z / s.sum(1, keepdims=True)
        return found
    return attention_sequences, (len(lengths), -(-max(lengths) // bm)), args, dict(BM=bm, BN=bn, D=d, num_warps=8), (out, expected)
