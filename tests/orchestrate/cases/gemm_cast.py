"""C = A cast(B)^T: weights of 8 bits, e4m3 or integers, become what A is, with a scale for each of B's rows behind the loop."""
import ml_dtypes
import numpy as np
import triton
import triton.language as tl

import mimw


@triton.jit
def gemm_cast(a_desc, b_desc, scales, c_desc, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        x = a_desc.load([m, k])
        y = b_desc.load([n, k]).to(x.dtype)
        acc = tl.dot(x, y.T, acc)
    acc *= tl.load(scales + n + tl.arange(0, BN))[None, :]
    c_desc.store([m, n], acc.to(c_desc.dtype))


@triton.jit
def gemm_cast_left(a_desc, b_desc, scales, c_desc, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """The same with A of 8 bits, and a scale for each of its rows and 128 columns."""
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        y = b_desc.load([n, k])
        x = a_desc.load([m, k]).to(y.dtype) * tl.load(scales + (m + tl.arange(0, BM)) * (K // 128) + k // 128)[:, None]
        acc = tl.dot(x, y.T, acc)
    c_desc.store([m, n], acc.to(c_desc.dtype))


@triton.jit
def gemm_cast_both(a_desc, b_desc, c_desc, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Integers times e4m3, as bf16."""
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        acc += tl.dot(a_desc.load([m, k]).to(tl.bfloat16), b_desc.load([n, k]).to(tl.bfloat16).T)
    c_desc.store([m, n], acc.to(c_desc.dtype))


def _numbers(rng, shape, kind):
    return rng.integers(-128, 128, shape).astype(np.int8) if kind == "int8" else \
        rng.standard_normal(shape).astype(ml_dtypes.float8_e4m3fn)


def case(m=128, n=128, k=256, bm=128, bn=128, bk=64, warps=4, kind="e4m3", seed=0):
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((m, k)).astype(ml_dtypes.bfloat16), _numbers(rng, (n, k), kind)
    scales, c = rng.random(n).astype(np.float32) * 0.1, np.zeros((m, n), ml_dtypes.bfloat16)
    describe = mimw.TensorDescriptor.from_tensor
    args = describe(a, [bm, bk]), describe(b, [bn, bk]), scales, describe(c, [bm, bn]), k
    return gemm_cast, (m // bm, n // bn), args, dict(BM=bm, BN=bn, BK=bk, num_warps=warps), (
        c, lambda: a.astype(np.float32) @ b.astype(np.float32).T * scales)


def left(m=128, n=128, k=256, bm=128, bn=128, bk=64, warps=4, kind="int8", seed=0):
    rng = np.random.default_rng(seed)
    a, b = _numbers(rng, (m, k), kind), rng.standard_normal((n, k)).astype(ml_dtypes.bfloat16)
    scales, c = (rng.random((m, k // 128)) * 0.1).astype(ml_dtypes.bfloat16), np.zeros((m, n), ml_dtypes.bfloat16)
    describe = mimw.TensorDescriptor.from_tensor
    args = describe(a, [bm, bk]), describe(b, [bn, bk]), scales, describe(c, [bm, bn]), k

    def expected():
        x = a.astype(ml_dtypes.bfloat16) * np.repeat(scales, 128, 1)
        return x.astype(np.float32) @ b.astype(np.float32).T
    return gemm_cast_left, (m // bm, n // bn), args, dict(BM=bm, BN=bn, BK=bk, num_warps=warps), (c, expected)


def both(m=64, n=32, k=128, bm=64, bn=32, bk=32, warps=4, seed=0):
    rng = np.random.default_rng(seed)
    a, b, c = _numbers(rng, (m, k), "int8"), _numbers(rng, (n, k), "e4m3"), np.zeros((m, n), np.float32)
    describe = mimw.TensorDescriptor.from_tensor
    args = describe(a, [bm, bk]), describe(b, [bn, bk]), describe(c, [bm, bn]), k
    return gemm_cast_both, (m // bm, n // bn), args, dict(BM=bm, BN=bn, BK=bk, num_warps=warps), (
        c, lambda: a.astype(np.float32) @ b.astype(np.float32).T)
