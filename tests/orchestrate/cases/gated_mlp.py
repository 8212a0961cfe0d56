"""Two products that take one input, as of a gated MLP, whose descriptor has an axis of one element for the batch; and the sum of
two products, as of that input's gradient."""
import numpy as np
import triton.language as tl

import mimw


@mimw.jit
def gated_mlp(x_desc, gate_desc, up_desc, out_desc, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    batch, m, n = tl.program_id(1), tl.program_id(0) * BM, tl.program_id(2) * BN
    gate = tl.zeros((BM, BN), tl.float32)
    up = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        x = x_desc.load([batch, m, k]).reshape([BM, BK])
        g = gate_desc.load([n, k])
        gate = tl.dot(x, tl.trans(g), gate)
        u = up_desc.load([n, k])
        up = tl.dot(x, tl.trans(u), up)
    out_desc.store([batch, m, n], (gate * tl.sigmoid(gate) * up).to(tl.float16).reshape([1, BM, BN]))


@mimw.jit
def sum_of_products(x_desc, gate_desc, y_desc, up_desc, out_desc, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    batch, m, n = tl.program_id(1), tl.program_id(0) * BM, tl.program_id(2) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        x = x_desc.load([batch, m, k]).reshape([BM, BK])
        g = gate_desc.load([n, k])
        acc = tl.dot(x, tl.trans(g), acc)
        y = y_desc.load([batch, m, k]).reshape([BM, BK])
        u = up_desc.load([n, k])
        acc = tl.dot(y, tl.trans(u), acc)
    out_desc.store([batch, m, n], acc.to(tl.float16).reshape([1, BM, BN]))


def _arrays(batch, m, n, k, seed=0):
    rng = np.random.default_rng(seed)
    x, y = (0.5 * rng.standard_normal((batch, m, k)).astype(np.float16) for _ in range(2))
    gate, up = (0.5 * rng.standard_normal((n, k)).astype(np.float16) for _ in range(2))
    return x, y, gate, up, np.zeros((batch, m, n), np.float16)


def case(batch=2, m=128, n=128, k=256, bm=128, bn=64, bk=64, warps=4):
    x, _, gate, up, out = _arrays(batch, m, n, k)
    describe = mimw.TensorDescriptor.from_tensor
    args = describe(x, [1, bm, bk]), describe(gate, [bn, bk]), describe(up, [bn, bk]), describe(out, [1, bm, bn]), k

    def expected():
        g, u = (x.astype(np.float32) @ w.T.astype(np.float32) for w in (gate, up))
        return g / (1 + np.exp(-g)) * u
    return gated_mlp, (m // bm, batch, n // bn), args, dict(BM=bm, BN=bn, BK=bk, num_warps=warps), (out, expected)


def gradient(batch=2, m=128, n=128, k=256, bm=128, bn=64, bk=64, warps=4):
    x, y, gate, up, out = _arrays(batch, m, n, k)
    describe = mimw.TensorDescriptor.from_tensor
    args = (describe(x, [1, bm, bk]), describe(gate, [bn, bk]), describe(y, [1, bm, bk]), describe(up, [bn, bk]),
            describe(out, [1, bm, bn]), k)

    def expected():
        return x.astype(np.float32) @ gate.T.astype(np.float32) + y.astype(np.float32) @ up.T.astype(np.float32)
    return sum_of_products, (m // bm, batch, n // bn), args, dict(BM=bm, BN=bn, BK=bk, num_warps=warps), (out, expected)
