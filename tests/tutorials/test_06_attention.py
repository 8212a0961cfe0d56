"""Tutorial 06 on the simulator and the GPU, against numpy; and under other interleavings."""

import ml_dtypes
import numpy as np
import pytest

import mimw
from mimw.testing import compare


def problem(heads, seq, dim, dtype):
    random = np.random.default_rng(0)
    q, k, v = (random.standard_normal((2, heads, seq, dim), np.float32).astype(dtype) for _ in range(3))
    return q, k, v, np.zeros_like(q), np.zeros(q.shape[:3], np.float32)


def reference(q, k, v, causal):
    q, k, v = (x.astype(np.float32) for x in (q, k, v))
    scores = q @ k.swapaxes(-1, -2) * q.shape[-1]**-0.5
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    lse = np.log(np.exp(scores).sum(-1))
    return np.exp(scores - lse[..., None]) @ v, lse


@pytest.mark.long(but=["1-128-64-False-float16-*", "2-384-64-True-bfloat16-*", "1-256-128-True-bfloat16-*"], everywhere=[
    "1-128-64-True-bfloat16-0.015", "1-256-128-False-bfloat16-0.015", "2-384-64-False-float16-0.002"])
@pytest.mark.parametrize("dtype, allowed", [(np.float16, 2e-3), (ml_dtypes.bfloat16, 1.5e-2)])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("heads, seq, dim", [(1, 128, 64), (2, 384, 64), (1, 256, 128)])
def test_attention(machine, tutorial, heads, seq, dim, causal, dtype, allowed):
    q, k, v, o, lse = problem(heads, seq, dim, dtype)
    grid, args, meta = tutorial.arguments(q, k, v, o, lse, causal)
    machine.launch(tutorial.attention, grid, *args, **meta)
    expected, expected_lse = reference(q, k, v, causal)
    compare(o.astype(np.float32), expected, rtol=0, atol=allowed)
    compare(lse, expected_lse, rtol=0, atol=1e-4)


@pytest.mark.parametrize("causal", [False, True])
def test_every_interleaving_is_right(tutorial, causal):
    q, k, v, o, lse = problem(1, 384, 64, np.float16)
    grid, args, meta = tutorial.arguments(q[:1], k[:1], v[:1], o[:1], lse[:1], causal)
    report = mimw.check(tutorial.attention, grid, *args, seeds=3, **meta)
    assert report.ok, str(report)
