"""Attention forward: types, head dims, masks, grouped queries, and lengths that no tile divides."""

import ml_dtypes
import numpy as np
import pytest

import mimw
from mimw.kernels import attention
from mimw.kernels.attention import Configuration

BF16 = ml_dtypes.bfloat16
ALLOWED = {np.float16: 2e-3, BF16: 1.5e-2}  # of O; log-sum-exp is fp32 throughout


def inputs(batch, heads, kv_heads, seq_q, seq_k, dim, dtype):
    random = np.random.default_rng(0)
    shapes = (batch, heads, seq_q, dim), (batch, kv_heads, seq_k, dim), (batch, kv_heads, seq_k, dim)
    q, k, v = (random.standard_normal(shape).astype(dtype) for shape in shapes)
    return q, k, v, np.full_like(q, np.nan), np.full(q.shape[:3], np.nan, np.float32)


def reference(q, k, v, causal, scale):
    """(o, log-sum-exp) in fp32."""
    group = q.shape[1] // k.shape[1]
    q, k, v = q.astype(np.float32), *(np.repeat(x.astype(np.float32), group, axis=1) for x in (k, v))
    scores = scale * q @ k.swapaxes(-1, -2)
    if causal:
        last = np.arange(q.shape[2])[:, None] + k.shape[2] - q.shape[2]
        scores = np.where(np.arange(k.shape[2]) <= last, scores, -np.inf)
    lse = np.log(np.exp(scores).sum(-1))
    return np.exp(scores - lse[..., None]) @ v, lse


def check(machine, *shape, dtype=np.float16, causal=False, scale=None, chosen=None, programs=3):
    q, k, v, o, lse = inputs(*shape, dtype)
    grid, args, meta = attention.arguments(q, k, v, o, lse, programs, causal, scale, chosen)
    machine.launch(attention.kernel, grid, *args, **meta)
    expected, expected_lse = reference(q, k, v, causal, shape[-1]**-0.5 if scale is None else scale)
    np.testing.assert_allclose(o.astype(np.float32), expected, rtol=0, atol=ALLOWED[dtype])
    np.testing.assert_allclose(lse, expected_lse, rtol=0, atol=1e-4)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dim", [64, 128, 256])
@pytest.mark.parametrize("dtype", [np.float16, BF16])
def test_types_and_head_dims(machine, dtype, dim, causal):
    check(machine, 1, 2, 2, 256, 256, dim, dtype=dtype, causal=causal)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("seq_q, seq_k", [(1, 1), (1, 300), (128, 129), (200, 200), (65, 640), (257, 383)])
def test_lengths(machine, seq_q, seq_k, causal):
    check(machine, 2, 2, 2, seq_q, seq_k, 64, causal=causal)


@pytest.mark.parametrize("heads, kv_heads", [(4, 1), (6, 2)])
@pytest.mark.parametrize("causal", [False, True])
def test_grouped_queries(machine, heads, kv_heads, causal):
    check(machine, 2, heads, kv_heads, 150, 150, 64, causal=causal)


@pytest.mark.parametrize("chosen", [Configuration(ping_pong=False), Configuration(bn=64, stages=3), Configuration(ahead=False),
                                    Configuration(band=3), Configuration(stages=4)], ids=str)
def test_configurations(machine, chosen):
    check(machine, 2, 2, 1, 300, 300, 64, causal=True, chosen=chosen)


@pytest.mark.parametrize("programs", [1, 2, 132])
def test_any_number_of_programs(machine, programs):
    check(machine, 1, 3, 3, 384, 256, 64, dtype=BF16, programs=programs)


def test_a_scale_of_ones_own(machine):
    check(machine, 1, 1, 1, 128, 256, 64, scale=0.5)


def test_heads_last_but_one(machine):
    """(batch, seq, heads, dim) in memory, seen as (batch, heads, seq, dim)."""
    q, k, v, o, lse = (x.swapaxes(1, 2) for x in inputs(2, 160, 160, 3, 3, 64, np.float16)[:4]), 0, 0, 0, 0
    q, k, v, o = q
    lse = np.zeros(q.shape[:3], np.float32)
    grid, args, meta = attention.arguments(q, k, v, o, lse, 2)
    machine.launch(attention.kernel, grid, *args, **meta)
    expected, expected_lse = reference(q, k, v, False, 1 / 8)
    np.testing.assert_allclose(o.astype(np.float32), expected, rtol=0, atol=ALLOWED[np.float16])


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("ping_pong", [False, True])
def test_every_interleaving_is_right(causal, ping_pong):
    q, k, v, o, lse = inputs(1, 2, 1, 200, 300, 64, np.float16)
    grid, args, meta = attention.arguments(q, k, v, o, lse, 3, causal, chosen=Configuration(ping_pong=ping_pong))
    report = mimw.check(attention.kernel, grid, *args, seeds=2, **meta)
    assert report.ok, str(report)
