"""Everyday products: GEMMs, attention, matrix by vector, batches, by tiles whose extents are no powers of two.

Shapes: see each case. Each kernel is right.

Input: nothing. Output: `CASES`; a case gives a kernel, its arguments, compile-time values and what the last array becomes. For
example:

    kernel, args, meta, want, result = arguments(CASES["gemm"])         mimw.simulate(kernel, (1, ), *args, **meta)
"""

import ml_dtypes
import numpy as np
import triton
import triton.language as tl

import mimw
from tests.kernels.odd_extents import numbers


@mimw.jit
def _gemm(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in tl.range(0, K, BK, num_stages=2):
        deep = k + tl.arange(0, BK)
        left = tl.load(a + rows[:, None] * K + deep[None, :], mask=(rows[:, None] < M) & (deep[None, :] < K), other=0.0)
        right = tl.load(b + deep[:, None] * N + columns[None, :], mask=(deep[:, None] < K) & (columns[None, :] < N), other=0.0)
        acc = tl.dot(left, right, acc)
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(c + rows[:, None] * N + columns[None, :], acc.to(c.dtype.element_ty), mask=inside)


def gemm():
    a, b = numbers(45, 100, dtype=np.float16), numbers(100, 170, seed=1, dtype=np.float16)
    want = a.astype(np.float32) @ b.astype(np.float32)
    return _gemm, (a, b, np.zeros((45, 170), np.float32), 45, 170, 100), dict(BM=48, BN=176, BK=48), want


def gemm_of_bf16():
    a, b = (numbers(*shape).astype(ml_dtypes.bfloat16) for shape in ((40, 64), (64, 72)))
    want = a.astype(np.float32) @ b.astype(np.float32)
    return _gemm, (a, b, np.zeros((40, 72), np.float32), 40, 72, 64), dict(BM=48, BN=80, BK=32), want


@mimw.jit
def _leaky(x):
    return tl.where(x >= 0, x, 0.01 * x)


@mimw.jit
def _fused(a, b, bias, c, ACTIVATION: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """A product of fp32 with a bias, an activation by a helper, and float64 nowhere."""
    left = tl.load(a + tl.arange(0, M)[:, None] * K + tl.arange(0, K)[None, :])
    right = tl.load(b + tl.arange(0, N)[None, :] * K + tl.arange(0, K)[:, None])
    acc = tl.dot(left, right, input_precision="ieee") + tl.load(bias + tl.arange(0, N))[None, :]
    if ACTIVATION == "leaky":
        acc = _leaky(acc)
    tl.store(c + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :], acc)


def fused():
    a, b, bias = numbers(24, 20), numbers(40, 20, seed=1), numbers(40, seed=2)
    out = a @ b.T + bias
    return _fused, (a, b, bias, np.zeros((24, 40), np.float32)), dict(ACTIVATION="leaky", M=24, N=40, K=20), np.where(
        out >= 0, out, 0.01 * out)


@mimw.jit
def _attention(q, k, v, out, keys, scale, D: tl.constexpr, BQ: tl.constexpr, BK: tl.constexpr):
    rows, deep = tl.arange(0, BQ), tl.arange(0, D)
    queries = tl.load(q + rows[:, None] * D + deep[None, :])
    top, total = tl.full((BQ, ), -float("inf"), tl.float32), tl.zeros((BQ, ), tl.float32)
    acc = tl.zeros((BQ, D), tl.float32)
    for start in tl.range(0, keys, BK, num_stages=1):
        at = start + tl.arange(0, BK)
        inside = at < keys
        kt = tl.load(k + at[None, :] * D + deep[:, None], mask=inside[None, :], other=0.0)
        scores = tl.dot(queries, kt) * scale
        scores = tl.where(inside[None, :] & (at[None, :] <= rows[:, None] + keys - BQ), scores, -float("inf"))
        new = tl.maximum(top, tl.max(scores, 1))
        alpha, p = tl.exp2(top - new), tl.exp2(scores - new[:, None])
        total = total * alpha + tl.sum(p, 1)
        values = tl.load(v + at[:, None] * D + deep[None, :], mask=inside[:, None], other=0.0)
        acc = tl.dot(p.to(values.dtype), values, acc * alpha[:, None])
        top = new
    tl.store(out + rows[:, None] * D + deep[None, :], acc / total[:, None])


def attention():
    q, k, v = (numbers(*shape, seed=at, dtype=np.float16) for at, shape in enumerate(((80, 96), (200, 96), (200, 96))))
    scores = q.astype(np.float32) @ k.astype(np.float32).T * 0.1 * np.log(2)
    scores = np.where(np.arange(200)[None, :] <= np.arange(80)[:, None] + 120, scores, -np.inf)
    p = np.exp(scores - scores.max(1, keepdims=True))
    want = p / p.sum(1, keepdims=True) @ v.astype(np.float32)
    return _attention, (q, k, v, np.zeros((80, 96), np.float32), 200, 0.1), dict(D=96, BQ=80, BK=176), want


@mimw.jit
def _batched(a, b, c, B: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    batch = tl.arange(0, B)[:, None, None]
    left = tl.load(a + batch * M * K + tl.arange(0, M)[None, :, None] * K + tl.arange(0, K)[None, None, :])
    right = tl.load(b + batch * K * N + tl.arange(0, K)[None, :, None] * N + tl.arange(0, N)[None, None, :])
    tl.store(c + batch * M * N + tl.arange(0, M)[None, :, None] * N + tl.arange(0, N)[None, None, :], tl.dot(left, right))


def batched():
    a, b = numbers(3, 24, 48, dtype=np.float16), numbers(3, 48, 40, seed=1, dtype=np.float16)
    want = a.astype(np.float32) @ b.astype(np.float32)
    return _batched, (a, b, np.zeros((3, 24, 40), np.float32)), dict(B=3, M=24, N=40, K=48), want


@mimw.jit
def _matrix_by_vector(a, x, y, rows, columns, BM: tl.constexpr, BN: tl.constexpr):
    at = tl.program_id(0) * BM + tl.arange(0, BM)
    acc = tl.zeros((BM, ), tl.float32)
    for start in range(0, columns, BN):
        along = start + tl.arange(0, BN)
        tile = tl.load(a + at[:, None] * columns + along[None, :], mask=(at < rows)[:, None] & (along < columns)[None, :], other=0)
        acc += tl.sum(tile * tl.load(x + along, mask=along < columns, other=0)[None, :], axis=1)
    tl.store(y + at, acc, mask=at < rows)


def matrix_by_vector():
    a, x = numbers(20, 130), numbers(130, seed=1)
    return _matrix_by_vector, (a, x, np.zeros(20, np.float32), 20, 130), dict(BM=24, BN=48), a @ x


@mimw.jit
def _integers(a, b, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    left = tl.load(a + tl.arange(0, M)[:, None] * K + tl.arange(0, K)[None, :])
    right = tl.load(b + tl.arange(0, K)[:, None] * N + tl.arange(0, N)[None, :])
    tl.store(c + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :], tl.dot(left, right, out_dtype=tl.int32))


def integers():
    a, b = (np.random.default_rng(at).integers(-5, 6, shape).astype(np.int8) for at, shape in enumerate(((48, 96), (96, 80))))
    want = a.astype(np.int32) @ b.astype(np.int32)
    return _integers, (a, b, np.zeros((48, 80), np.int32)), dict(M=48, N=80, K=96), want


@mimw.jit
def _split_depth(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Two programs share the depth, and add by atomics."""
    part = tl.program_id(0)
    deep = part * BK + tl.arange(0, BK)
    left = tl.load(a + tl.arange(0, BM)[:, None] * K + deep[None, :])
    right = tl.load(b + deep[:, None] * BN + tl.arange(0, BN)[None, :])
    tl.atomic_add(c + tl.arange(0, BM)[:, None] * BN + tl.arange(0, BN)[None, :], tl.dot(left, right), sem="relaxed")


def split_depth():
    a, b = numbers(24, 48, dtype=np.float16), numbers(48, 80, seed=1, dtype=np.float16)
    want = a[:, :48].astype(np.float32) @ b[:48].astype(np.float32)
    return _split_depth, (a, b, np.zeros((24, 80), np.float32), 48), dict(BM=24, BN=80, BK=48), want


@mimw.jit
def _dequantised(a, q, scales, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """Two 4-bit weights a byte, along K, a scale a column."""
    packed = tl.load(q + tl.arange(0, K // 2)[None, :] + tl.arange(0, N)[:, None] * (K // 2))
    low, high = (packed & 15).to(tl.int8) - 8, (packed >> 4).to(tl.int8) - 8
    weights = tl.interleave(low, high).to(tl.float16) * tl.load(scales + tl.arange(0, N))[:, None]
    left = tl.load(a + tl.arange(0, M)[:, None] * K + tl.arange(0, K)[None, :])
    tl.store(c + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :], tl.dot(left, tl.trans(weights)))


def dequantised():
    a, q = numbers(16, 96, dtype=np.float16), np.random.default_rng(1).integers(0, 256, (40, 48)).astype(np.uint8)
    scales = numbers(40, seed=2, dtype=np.float16)
    w = (np.stack([q & 15, q >> 4], 2).reshape(40, 96).astype(np.float16) - 8) * scales[:, None]
    want = a.astype(np.float32) @ w.astype(np.float32).T
    return _dequantised, (a, q, scales, np.zeros((16, 40), np.float32)), dict(M=16, N=40, K=96), want


@mimw.jit
def _tile(a, b, c, pid, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = pid % tl.cdiv(M, BM) * BM, pid // tl.cdiv(M, BM) * BN
    left = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    right = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(left.load([m, k]), right.load([n, k]).T, acc)
    tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN]).store([m, n], acc.to(tl.float16))


@mimw.jit
def _persistent(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Tiles in turn, by descriptors that the kernel makes."""
    for pid in tl.range(tl.program_id(0), tl.cdiv(M, BM) * tl.cdiv(N, BN), tl.num_programs(0)):
        _tile(a, b, c, pid, M, N, K, BM, BN, BK)


def persistent():
    a, b = numbers(70, 80, dtype=np.float16), numbers(104, 80, seed=1, dtype=np.float16)
    want = a.astype(np.float32) @ b.astype(np.float32).T
    return _persistent, (a, b, np.zeros((70, 104), np.float16), 70, 104, 80), dict(BM=48, BN=80, BK=64), want


@mimw.jit
def _fp8(a, b, scale, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    left = tl.load(a + tl.arange(0, M)[:, None] * K + tl.arange(0, K)[None, :])
    right = tl.load(b + tl.arange(0, N)[:, None] * K + tl.arange(0, K)[None, :])
    out = tl.dot(left, right.T) * tl.load(scale + tl.arange(0, M))[:, None]
    tl.store(c + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :], out)


def fp8():
    a, b = (numbers(*shape, seed=at).astype(ml_dtypes.float8_e5m2) for at, shape in enumerate(((80, 96), (48, 96))))
    scale = numbers(80, seed=2)
    want = a.astype(np.float32) @ b.astype(np.float32).T * scale[:, None]
    return _fp8, (a, b, scale, np.zeros((80, 48), np.float32)), dict(M=80, N=48, K=96), want


@triton.jit
def _outer(x, y):
    return x[:, None] * y[None, :]


@mimw.jit
def _rank_one(x, y, state, out, M: tl.constexpr, N: tl.constexpr, STEPS: tl.constexpr):
    """A linear attention's state: outer products, step by step, unrolled."""
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    s = tl.load(state + at)
    for i in tl.static_range(STEPS):
        s = s * 0.5 + _outer(tl.load(x + i * M + tl.arange(0, M)), tl.load(y + i * N + tl.arange(0, N)))
    tl.store(out + at, s)


def rank_one():
    x, y, state = numbers(3, 20), numbers(3, 12, seed=1), numbers(20, 12, seed=2)
    want = state
    for i in range(3):
        want = want * 0.5 + np.outer(x[i], y[i])
    return _rank_one, (x, y, state, np.zeros((20, 12), np.float32)), dict(M=20, N=12, STEPS=3), want


CASES = {case.__name__: case for case in (
    gemm, gemm_of_bf16, fused, attention, batched, matrix_by_vector, integers, split_depth, dequantised, persistent, fp8,
    rank_one)}
