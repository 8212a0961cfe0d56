"""Loops with a product and small loads by pointers: scales of rows and of blocks of columns, numbers; and ones that stay."""
import numpy as np
import triton
import triton.language as tl

import mimw

D = 16


@triton.jit
def scaled(a_desc, b_desc, sa, sb, number, out, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr):
    """A scale a row and trip, one for all columns and a trip, whose address goes round the loop, and one by a mask of its own."""
    rows, cols = tl.arange(0, M), tl.program_id(0) * N + tl.arange(0, N)
    steps = tl.cdiv(K, BK)
    acc = tl.zeros((M, N), tl.float32)
    at = sa + rows * steps
    for k in range(steps):
        s = tl.dot(a_desc.load([0, k * BK]), b_desc.load([k * BK, tl.program_id(0) * N]))
        s = s * tl.load(at)[:, None] * tl.load(sb + cols // N * steps + k)[None, :]
        acc += s * tl.load(number + k) + tl.load(sa + rows * steps + k, mask=rows < M - k, other=2.0)[:, None]
        at += 1
    tl.store(out + rows[:, None] * (N * tl.num_programs(0)) + cols[None, :], acc)


@triton.jit
def stays(a_desc, b_desc, table, sa, out, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr):
    """Scales at places that numbers say; at ones that divide by what changes; and of an array that is written."""
    rows, cols = tl.arange(0, M), tl.arange(0, N)
    acc = tl.zeros((M, N), tl.float32)
    for k in range(0, K, BK):
        s = tl.dot(a_desc.load([0, k]), b_desc.load([k, 0]))
        place = tl.load(table + k // BK)
        s = s * tl.load(sa + place * M + rows)[:, None]
        s = s * tl.load(sa + K // (K - k) * 0 + rows)[:, None]
        acc += s + tl.load(out + rows)[:, None]
    tl.store(out + rows[:, None] * N + cols[None, :], acc)


def case(m=64, n=32, k=96, bk=32, programs=2, seed=0):
    rng = np.random.default_rng(seed)
    steps = -(-k // bk)
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((m, max(k, bk)), (max(k, bk), n * programs)))
    some = max(steps, 1)
    sa, sb, number = (rng.random(shape).astype(np.float32) + 0.5 for shape in ((m, some), (programs, some), some))
    out = np.zeros((m, n * programs), np.float32)
    describe = mimw.TensorDescriptor.from_tensor

    def expected():
        total = np.zeros_like(out)
        for step in range(steps):
            span = slice(step * bk, step * bk + bk)
            scales = np.repeat(sb[:, step], n)[None, :]
            plus = np.where(np.arange(m) < m - step, sa[:, step], 2)[:, None]
            total += a[:, span].astype(np.float32) @ b[span].astype(np.float32) * sa[:, step, None] * scales * number[step] + plus
        return total
    args = describe(a, [m, bk]), describe(b, [bk, n]), sa, sb, number, out, k
    return scaled, (programs, ), args, dict(M=m, N=n, BK=bk, num_warps=4), (out, expected)


def refused(m=64, n=32, k=64, bk=32):
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((m, k), (k, n)))
    table, sa, out = np.zeros(k // bk, np.int32), rng.random((1, m)).astype(np.float32), np.zeros((m, n), np.float32)
    describe = mimw.TensorDescriptor.from_tensor
    args = describe(a, [m, bk]), describe(b, [bk, n]), table, sa, out, k
    return stays, (1, ), args, dict(M=m, N=n, BK=bk, num_warps=4), (out, None)
