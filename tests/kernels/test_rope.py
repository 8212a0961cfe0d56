"""Rotary embedding of two tensors in one launch against numpy in fp64: pairs, blocks, columns left alone, in place, refusals."""

import numpy as np
import pytest

from mimw.kernels import rope


def numbers(*shapes, dtype=np.float32):
    random = np.random.default_rng(0)
    return [random.standard_normal(shape, np.float32).astype(dtype) for shape in shapes]


def turned(x, cos, sin, interleaved):
    wide, half, y = x.astype(np.float64), cos.shape[-1], x.astype(np.float64)
    first, second = (slice(0, 2 * half, 2), slice(1, 2 * half, 2)) if interleaved else (slice(0, half), slice(half, 2 * half))
    a, b = wide[..., first], wide[..., second]
    y[..., first], y[..., second] = a * cos[:, None] - b * sin[:, None], a * sin[:, None] + b * cos[:, None]
    return y


@pytest.mark.parametrize("interleaved, half, in_place, back, dtype", [
    (False, 8, True, True, np.float32), (True, 6, False, False, np.float16)])
def test_two_tensors(machine, interleaved, half, in_place, back, dtype):
    """Two positions and four heads a program: 7 positions, 5 heads of queries, 2 of keys."""
    q, k = numbers((2, 5, 7, 16), (2, 2, 7, 16), dtype=dtype)
    cos, sin = numbers((1, 9, half), (1, 9, half))
    positions = np.array([[3, 1, 4, 1, 5, 8, 2], [6, 5, 3, 5, 8, 0, 7]], np.int32)
    expected = [turned(x, cos[0][positions], (-sin if back else sin)[0][positions], interleaved) for x in (q, k)]
    outs = (q, k) if in_place else (np.full_like(q, np.nan), np.full_like(k, np.nan))
    kernel, grid, args, meta = rope.arguments((q, k), outs, cos, sin, positions, interleaved, back, chosen=(2, 4))
    machine.launch(kernel, grid, *args, **meta)
    for found, wanted in zip(outs, expected):
        np.testing.assert_allclose(found.astype(np.float64), wanted, rtol=2e-3, atol=2e-3 if dtype == np.float16 else 1e-6)


@pytest.mark.parametrize("change, text", [
    (dict(cos=np.zeros((1, 7, 9), np.float32), sin=np.zeros((1, 7, 9), np.float32)),
     "half is 9 and dim is 16; tables turn twice as many columns as"),
    (dict(cos=np.zeros((1, 6, 8), np.float32), sin=np.zeros((1, 6, 8), np.float32)),
     "table is 6 and length is 7; tables need a row for each position"),
    (dict(xs=(np.zeros((2, 5, 7, 16), np.float32), np.zeros((2, 2, 6, 16), np.float32))),
     "k is 2 x 2 x 6 x 16; for x 2 x 5 x 7 x 16 it must be 2 x 2 x 7 x"),
    (dict(positions=np.zeros((2, 7), np.float32)), "positions is float32")])
def test_refusals(change, text):
    x = np.zeros((2, 5, 7, 16), np.float32)
    given = dict(xs=(x, ), outs=(x, ), cos=np.zeros((1, 7, 8), np.float32), sin=np.zeros((1, 7, 8), np.float32)) | change
    with pytest.raises(ValueError, match=text):
        rope.arguments(**given)
