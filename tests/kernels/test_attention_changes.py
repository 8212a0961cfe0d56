"""Attention with windows, soft caps, sinks and slopes: against fp64, blocks outside of windows untouched, refusals."""

import ml_dtypes
import numpy as np
import pytest

import mimw
from mimw.kernels import attention, plain_attention
from mimw.kernels.attention import Configuration
from tests.kernels.attention_reference import reference

BF16 = ml_dtypes.bfloat16
ONE_SLOT = Configuration(ahead=False, bn=64, ping_pong=True)


def problem(batch, heads, kv_heads, seq_q, seq_k, dim=64, dtype=np.float16, value_dim=None, **options):
    """q, k, v, o, lse, and the options with arrays: slopes=2 is one for each batch and head, sinks=x normal ones times x."""
    random = np.random.default_rng(0)
    q, k, v = (random.standard_normal(shape).astype(dtype) for shape in (
        (batch, heads, seq_q, dim), (batch, kv_heads, seq_k, dim), (batch, kv_heads, seq_k, value_dim or dim)))
    if "sinks" in options:
        options["sinks"] = options["sinks"] * random.standard_normal(heads).astype(np.float32)
    if "slopes" in options:
        options["slopes"] = random.random((batch, heads)[2 - options["slopes"]:]).astype(np.float32) / 10
    o = np.full((batch, heads, seq_q, value_dim or dim), np.nan, dtype)
    return (q, k, v, o, np.full(q.shape[:3], np.nan, np.float32)), options


def compare(arrays, options, allowed=2e-3):
    q, k, v, o, lse = arrays
    expected, expected_lse = reference(q, k, v, **options)
    np.testing.assert_allclose(o.astype(np.float64), expected, rtol=0, atol=allowed)
    np.testing.assert_allclose(lse, expected_lse, rtol=0, atol=1e-4)


CASES = {
    "causal window": ((1, 2, 1, 300, 300), dict(causal=True, window=(100, None)), Configuration()),
    "window": ((1, 1, 1, 300, 500), dict(window=(100, 30)), Configuration()),
    "to the right": ((1, 1, 1, 300, 420), dict(window=(None, 130)), Configuration()),
    "to the left": ((1, 2, 1, 400, 400), dict(window=(5, None)), ONE_SLOT),
    "right of 0": ((2, 2, 1, 200, 200), dict(window=(None, 0)), Configuration()),
    "one key": ((1, 2, 1, 300, 300), dict(causal=True, window=(0, None)), Configuration()),
    "few keys": ((1, 2, 1, 400, 400), dict(causal=True, window=(60, None), sinks=1.0), None),
    "soft cap": ((1, 1, 1, 150, 300), dict(softcap=2.0, scale=0.5), Configuration()),
    "sinks": ((1, 2, 2, 150, 150), dict(sinks=3.0, causal=True), Configuration()),
    "a sink above all": ((1, 2, 1, 100, 100), dict(sinks=200.0), Configuration()),
    "slopes": ((2, 2, 1, 150, 260), dict(slopes=2), Configuration()),
    "all": ((1, 2, 1, 300, 300), dict(causal=True, window=(160, None), softcap=2.0, sinks=1.0, slopes=1), Configuration()),
}


@pytest.mark.long(but=["to the left", "a sink above all", "all"], everywhere=True)
@pytest.mark.parametrize("name", CASES)
def test_on_hopper(machine, name):
    """Two programs compute several tiles each, so that one tile's slope and window meet the next one's."""
    shape, options, chosen = CASES[name]
    arrays, options = problem(*shape, **options)
    grid, args, meta = attention.arguments(*arrays, np.zeros(1, np.int32), 2, chosen=chosen, **options)
    machine.launch(attention.kernel, grid, *args, **meta)
    compare(arrays, options)


@pytest.mark.long(but=["256"], everywhere=True)
@pytest.mark.parametrize("dim", [128, 256])
def test_head_dims(machine, dim):
    arrays, options = problem(1, 1, 1, 100, 200, dim, BF16, causal=True, window=(70, None), softcap=5.0, sinks=1.0, slopes=1)
    grid, args, meta = attention.arguments(*arrays, np.zeros(1, np.int32), 1, **options)
    machine.launch(attention.kernel, grid, *args, **meta)
    compare(arrays, options, 1.5e-2)


@pytest.mark.parametrize("options", [
    dict(window=(3, 2)), dict(window=(None, 1), sinks=2.0), dict(causal=True, window=(4, 9), softcap=2.0),
    dict(slopes=2, sinks=1.0), dict(softcap=0.5, slopes=1)])
def test_plain(machine, options):
    """12 queries on 9 keys: with a right bound of 1 the first query sees none, and a sink alone is its sum."""
    arrays, options = problem(2, 4, 2, 12, 9, 20, np.float32, 24, **options)
    grid, args, meta = plain_attention.arguments(*arrays, exact=True, **options)
    machine.launch(plain_attention.kernel, grid, *args, **meta)
    compare(arrays, options, 1e-5)


def test_keys_outside_of_a_window_are_not_read():
    """Four blocks of keys, the first two of which no query sees: they are NaN, which a mask would let through into the products."""
    (q, k, v, o, lse), options = problem(1, 1, 1, 128, 512, causal=True, window=(100, None))
    k[:, :, :256], v[:, :, :256] = np.nan, np.nan
    grid, args, meta = attention.arguments(q, k, v, o, lse, np.zeros(1, np.int32), 1, **options)
    mimw.simulate(attention.kernel, grid, *args, **meta)
    k, v = np.nan_to_num(k), np.nan_to_num(v)
    compare((q, k, v, o, lse), options)


@pytest.mark.parametrize("chosen", [Configuration(), ONE_SLOT])
def test_every_interleaving_is_right(chosen):
    arrays, options = problem(1, 2, 1, 200, 200, causal=True, window=(70, None), softcap=2.0, sinks=1.0, slopes=1)
    grid, args, meta = attention.arguments(*arrays, np.zeros(1, np.int32), 1, chosen=chosen, **options)
    report = mimw.check(attention.kernel, grid, *args, seeds=2, **meta)
    assert report.ok, str(report)


@pytest.mark.parametrize("options, text", [
    (dict(window=(-1, None)), r"window is \(-1, None\)"), (dict(window=(1.5, 2)), "each None or a number of keys"),
    (dict(softcap=0.0), "softcap is 0.0"), (dict(sinks=np.zeros(3, np.float32)), "sinks is 3; for q 1 x 2 x 64 x 64 it must be 2, "
                                                                                 ".heads."),
    (dict(sinks=np.zeros(2)), "sinks is float64"), (dict(slopes=np.zeros((2, 2), np.float32)), "slopes is 2 x 2"),
    (dict(slopes=np.zeros((2, 2), np.float32)[:, 0]), "slopes must be contiguous; its strides are"),
    (dict(window=(None, 3), seq_k=60), "seq_k is 60, reach is 3 and seq_q is 64; the first queries would")])
def test_refusals(options, text):
    seq_k = options.pop("seq_k", 64)
    arrays, _ = problem(1, 2, 1, 64, seq_k)
    with pytest.raises(ValueError, match=text):
        attention.arguments(*arrays, np.zeros(1, np.int32), 1, **options)
