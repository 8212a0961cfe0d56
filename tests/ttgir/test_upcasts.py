"""Products with scales on chips whose products take none: stock Triton unpacks and scales the operands, and that is read."""

import ml_dtypes
import numpy as np
import pytest
import triton
import triton.language as tl

import mimw
from mimw.runtime.ttgir import compiled_launch

FP4 = np.array([0, .5, 1, 1.5, 2, 3, 4, 6], np.float32)


@triton.jit
def scaled(a, a_scale, b, b_scale, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, OF_A: tl.constexpr, OF_B: tl.constexpr,
           PACKED_A: tl.constexpr, PACKED_B: tl.constexpr):
    m, n, s = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K // 32)
    x = tl.load(a + m[:, None] * (K // PACKED_A) + tl.arange(0, K // PACKED_A)[None, :])
    y = tl.load(b + tl.arange(0, K // PACKED_B)[:, None] * N + n[None, :])
    u, v = tl.load(a_scale + m[:, None] * (K // 32) + s[None, :]), tl.load(b_scale + n[:, None] * (K // 32) + s[None, :])
    tl.store(c + m[:, None] * N + n[None, :], tl.dot_scaled(x, u, OF_A, y, v, OF_B))


def operand(kind: str, rows: int, columns: int, rng) -> tuple[np.ndarray, np.ndarray]:
    """The bytes, packed along the columns, and the numbers that they are."""
    if kind == "e2m1":
        pairs = rng.integers(0, 256, (rows, columns // 2), dtype=np.uint8)
        halves = np.stack((pairs & 15, pairs >> 4), -1).reshape(rows, columns)
        return pairs, FP4[halves & 7] * np.where(halves & 8, -1, 1)
    numbers = rng.standard_normal((rows, columns)).astype(ml_dtypes.float8_e4m3fn if kind == "e4m3" else ml_dtypes.float8_e5m2)
    return numbers, numbers.astype(np.float32)


@pytest.mark.parametrize("chip, of_a, of_b", [("sm_90a", "e4m3", "e2m1"), ("sm_80", "e2m1", "e2m1"), ("gfx942", "e4m3", "e2m1"),
                                              ("gfx942", "e2m1", "e5m2")])
def test_products_are_those_of_the_numbers(chip, of_a, of_b):
    rng, m, n, k = np.random.default_rng(7), 32, 32, 64
    (a, x), (b, y) = operand(of_a, m, k, rng), operand(of_b, n, k, rng)
    scales = [rng.integers(124, 131, (rows, k // 32), dtype=np.uint8) for rows in (m, n)]
    factors = [np.repeat(2. ** (one.astype(np.float32) - 127), 32, 1) for one in scales]
    given = a, scales[0], np.ascontiguousarray(b.T), scales[1], np.zeros((m, n), np.float32)
    meta = dict(M=m, N=n, K=k, OF_A=of_a, OF_B=of_b, PACKED_A=1 + (of_a == "e2m1"), PACKED_B=1 + (of_b == "e2m1"))
    report = mimw.check_compiled(scaled, (1, ), *given, **meta, target=chip, seeds=1, rounds=False, tolerance=1e-3,
                                 expected={"c": (x * factors[0]) @ (y * factors[1]).T})
    assert report.ok and "'c' as expected" in report.results
    text = compiled_launch(scaled, (1, ), given, meta, chip)[1].text
    assert ("ttg.fp4_to_fp" if chip.startswith("sm") else "amdg.scaled_upcast_fp4") in text
    assert chip.startswith("sm") or "amdg.scaled_upcast_fp8" in text
