"""The plain kernels against numpy: any strides, edges that no tile divides, and what they refuse."""

import ml_dtypes
import numpy as np
import pytest

from mimw.kernels import plain_attention, plain_matmul, plain_topk

BF16, E4M3, E5M2 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2


def normal(shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("left, right, out, exact, allowed", [
    (np.float16, np.float16, np.float16, False, 1e-3), (BF16, BF16, np.float32, False, 1e-5),
    (np.float32, np.float32, np.float32, True, 1e-6), (np.float32, np.float32, np.float32, False, 2e-3),
    (E4M3, E5M2, np.float32, False, 1e-5)])
def test_products(machine, left, right, out, exact, allowed):
    """A batch, B read by columns; fp8 is exact until the result is rounded, fp32 if that is asked for."""
    a, b = normal((2, 17, 70), left), normal((2, 40, 70), right, 1).transpose(0, 2, 1)
    c = np.full((2, 17, 40), np.nan, out)
    grid, args, meta = plain_matmul.arguments(a, b, c, exact)
    machine.launch(plain_matmul.kernel, grid, *args, **meta)
    expected = a.astype(np.float64) @ b.astype(np.float64)
    assert np.abs(c.astype(np.float64) - expected).max() <= allowed * np.abs(expected).max()


def test_picked_rows(machine):
    a, b, c = normal((1, 5, 8)), normal((1, 8, 6), seed=1), np.full((1, 4, 6), 7, np.float32)
    source, target = np.array([4, -1, 0, 9], np.int32), np.array([2, 0, 4, 3], np.int32)
    grid, args, meta = plain_matmul.arguments(a, b, c, True, (source, target))
    machine.launch(plain_matmul.kernel, grid, *args, **meta)
    expected = np.stack([np.zeros(6), np.full(6, 7), a[0, 4] @ b[0], np.zeros(6)])
    np.testing.assert_allclose(c[0], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("causal", [False, True])
def test_attention(machine, causal):
    """Two query heads a KV head, 12 queries on 9 keys, values of another width, in memory as (batch, length, heads, dim)."""
    q, k = normal((1, 12, 4, 20), BF16).transpose(0, 2, 1, 3), normal((1, 2, 9, 20), BF16, 1)
    v, o, lse = normal((1, 2, 9, 24), BF16, 2), np.full((1, 4, 12, 24), np.nan, BF16), np.zeros((1, 4, 12), np.float32)
    grid, args, meta = plain_attention.arguments(q, k, v, o, lse, causal, 0.4)
    machine.launch(plain_attention.kernel, grid, *args, **meta)
    scores = q.astype(np.float64) @ np.repeat(k, 2, 1).astype(np.float64).swapaxes(2, 3) * 0.4
    scores = np.where(np.tri(12, 9, -3, bool), scores, -np.inf) if causal else scores
    with np.errstate(divide="ignore"):
        p = np.exp(scores)
        np.testing.assert_allclose(lse, np.log(p.sum(-1)), rtol=0, atol=1e-2)
    expected = p @ np.repeat(v, 2, 1).astype(np.float64) / np.maximum(p.sum(-1, keepdims=True), 1e-30)
    np.testing.assert_allclose(o.astype(np.float64), expected, rtol=0, atol=2e-2)


@pytest.mark.parametrize("largest", [True, False])
def test_topk(machine, largest):
    """NaN is largest, of equal ones the first comes first; a block that lacks numbers says -1."""
    x = np.array([[3, np.nan, -0.0, 3, -np.inf, 1], [2, 2, 2, 2, 2, 2]], np.float32)
    values, indices = np.zeros((2, 4), np.float32), np.zeros((2, 4), np.int64)
    grid, args, meta = plain_topk.arguments(x, None, values, indices, largest)
    machine.launch(plain_topk.kernel, grid, *args, **meta)
    assert indices.tolist() == [[1, 0, 3, 5] if largest else [4, 2, 5, 0], [0, 1, 2, 3]]
    np.testing.assert_array_equal(values, np.take_along_axis(x, indices, 1))
    more, places = np.zeros((2, 3), np.float32), np.zeros((2, 3), np.int32)
    named = np.array([[9, -1, 5, 7], [-1, -1, 8, -1]], np.int32)
    grid, args, meta = plain_topk.arguments(values, named, more, places, largest)
    machine.launch(plain_topk.kernel, grid, *args, **meta)
    assert places.tolist() == [[9, 5, 7] if largest else [9, 5, 7], [8, -1, -1]]


def test_it_is_compiled_for_an_older_chip(monkeypatch):
    monkeypatch.setenv("MIMW_TARGET", "sm_80")
    a, c = normal((1, 64, 64), BF16), np.zeros((1, 64, 64), BF16)
    grid, args, meta = plain_matmul.arguments(a, a, c)
    ptx = plain_matmul.kernel.warmup(*args, grid=grid, **meta).asm["ptx"]
    assert ".target sm_80" in ptx and "mma.sync" in ptx


@pytest.mark.parametrize("call, text", [
    (lambda: plain_matmul.arguments(normal((1, 4, 5)), normal((1, 6, 4)), normal((1, 4, 4))),
     "b is 1 x 6 x 4; for a 1 x 4 x 5 it must be 1 x 5 x N, .Z, K, N."),
    (lambda: plain_matmul.arguments(normal((1, 4, 5)), normal((1, 5, 4), BF16), normal((1, 4, 4))),
     "a is float32 and b bfloat16; both must be of one type, or both fp8"),
    (lambda: plain_matmul.arguments(normal((1, 4, 5)), normal((1, 5, 4)), normal((1, 4, 4), np.int32)), "c is int32"),
    (lambda: plain_matmul.arguments(normal((1, 4, 5)), normal((1, 5, 4)), normal((1, 4, 4)), False,
                                    (np.zeros(3, np.int32), np.zeros(2, np.int32))), "target is 2; for source 3 it must be 3, .R."),
    (lambda: plain_attention.arguments(*[normal((1, 3, 4, 8))] * 4, normal((1, 3, 5))),
     "lse is 1 x 3 x 5; for q 1 x 3 x 4 x 8 it must be 1 x 3 x 4,"),
    (lambda: plain_attention.arguments(normal((1, 3, 4, 8)), *[normal((1, 2, 4, 8))] * 2, normal((1, 3, 4, 8)), normal((1, 3, 4))),
     "kv_heads is 2 and heads is 3; the heads of k and v must divide"),
    (lambda: plain_topk.arguments(normal((2, 4)), None, normal((2, 5)), np.zeros((2, 5), np.int32)),
     "width is 5, count is 1 and length is 4; values and indices must"),
    (lambda: plain_topk.arguments(normal((2, 4)), None, normal((2, 2)), np.zeros((2, 2), np.int16)), "indices is int16")])
def test_refusals(call, text):
    with pytest.raises(ValueError, match=text):
        call()
