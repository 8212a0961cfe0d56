"""`tl.dot_scaled` of tiles whose extents are no powers of two.

Shapes: A (M, K), B (N, K), of fp8 or of pairs of fp4, scales of powers of two for 32 neighbours along K, out (M, N) fp32; one
program. Each kernel is right.

Input: extents and formats. Output: what `mimw.simulate` takes, out and what it becomes. For example:

    args, meta, out, want = launch(48, 80, 96, "e4m3", "e2m1")
"""

import ml_dtypes
import numpy as np
import triton.language as tl

import mimw


@mimw.jit
def product(a, sa, b, sb, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, FA: tl.constexpr, FB: tl.constexpr):
    """Without scales of A where sa is None."""
    KA: tl.constexpr = K // 2 if FA == "e2m1" else K
    KB: tl.constexpr = K // 2 if FB == "e2m1" else K
    left = tl.load(a + tl.arange(0, M)[:, None] * KA + tl.arange(0, KA)[None, :])
    right = tl.load(b + tl.arange(0, N)[None, :] * KB + tl.arange(0, KB)[:, None])
    blocks = tl.arange(0, K // 32)[None, :]
    right_scale = tl.load(sb + tl.arange(0, N)[:, None] * (K // 32) + blocks)
    left_scale = None if sa is None else tl.load(sa + tl.arange(0, M)[:, None] * (K // 32) + blocks)
    sums = tl.dot_scaled(left, left_scale, FA, right, right_scale, FB)
    tl.store(out + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :], sums)


_FP8 = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2, "bf16": ml_dtypes.bfloat16}
_FP4 = np.array([0, .5, 1, 1.5, 2, 3, 4, 6], np.float32)


def _operand(random, rows: int, k: int, kind: str):
    """(what the kernel takes, its numbers)."""
    if kind != "e2m1":
        numbers = random.integers(-4, 5, (rows, k)).astype(_FP8[kind])
        return numbers, numbers.astype(np.float32)
    codes = random.integers(0, 16, (rows, k)).astype(np.uint8)
    return codes[:, ::2] | codes[:, 1::2] << 4, _FP4[codes & 7] * np.where(codes & 8, -1, 1)


def launch(m: int, n: int, k: int, a: str, b: str):
    """(arguments, compile-time values, out, what out becomes)."""
    random = np.random.default_rng(m)
    (left, x), (right, y) = _operand(random, m, k, a), _operand(random, n, k, b)
    scales = [random.integers(125, 130, (rows, k // 32)).astype(np.uint8) for rows in (m, n)]
    wide = [np.repeat(2.0**(scale.astype(np.float32) - 127), 32, 1) for scale in scales]
    out, without = np.zeros((m, n), np.float32), a == "bf16"
    want = (x if without else x * wide[0]) @ (y * wide[1]).T
    return (left, None if without else scales[0], right, scales[1], out), dict(M=m, N=n, K=k, FA=a, FB=b), out, want
