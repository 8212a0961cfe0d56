"""2-simplicial attention against fp64: both kernels, windows that cut, second keys of no consumer, grouped heads, refusals."""

import ml_dtypes
import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.kernels import plain_simplicial_attention, simplicial_attention, simplicial_attention_backward
from mimw.kernels.simplicial_attention import Configuration
from mimw.kernels.simplicial_attention.compute import scale_queries
from tests.compiling import to_ttgir

BF16 = ml_dtypes.bfloat16
SMALL = Configuration(bn=16, stages=2, chunk=2)
ALLOWED = {np.float16: 4e-3, BF16: 3e-2, np.float32: 1e-5}


def inputs(batch, heads, kv_heads, seq_q, seq_k, dim, dtype):
    random = np.random.default_rng(0)
    shapes = [(batch, heads, seq_q, dim)] + 4 * [(batch, kv_heads, seq_k, dim)]
    return [random.standard_normal(shape).astype(dtype) for shape in shapes]


def seen(q, k, windows):
    """Which pairs of keys each query sees."""
    j = np.arange(k.shape[2])
    i = j[-q.shape[2]:, None]
    first, second = ((j <= i) & (j > i - window) for window in windows)
    return first[:, :, None] & second[:, None]


def reference(q, k, v, k2, v2, windows, scale):
    """(o, log-sum-exp) in fp64."""
    q, k, v, k2, v2 = (np.repeat(x.astype(np.float64), q.shape[1] // x.shape[1], 1) for x in (q, k, v, k2, v2))
    powers = np.exp(scale * np.einsum("bhid,bhjd,bhkd->bhijk", q, k, k2)) * seen(q, k, windows)
    total = powers.sum((-1, -2))
    return np.einsum("bhijk,bhjd,bhkd->bhid", powers, v, v2) / total[..., None], np.log(total)


def results(q):
    return np.full_like(q, np.nan), np.full(q.shape[:3], np.nan, np.float32)


def check(o, lse, arrays, windows, scale):
    expected, exact = reference(*arrays, windows, scale)
    np.testing.assert_allclose(o.astype(np.float64), expected, rtol=0, atol=ALLOWED[o.dtype.type] * np.abs(expected).max())
    np.testing.assert_allclose(lse, exact, rtol=0, atol=ALLOWED[o.dtype.type])


@pytest.mark.long(but=["shape0-*", "shape2-*"], everywhere=True)
@pytest.mark.parametrize("shape, windows, dtype, chosen", [
    ((1, 64, 1, 3, 3, 64), (2, 2), BF16, SMALL),                        # one key, then two; consumer 1 has none, then one
    ((1, 64, 1, 3, 52, 64), (50, 3), np.float16, SMALL),                # two chunks; consumer 1 has one second key less
    ((1, 64, 1, 2, 20, 64), (18, 1), np.float16, Configuration(16, 2, 1)),
    ((2, 128, 2, 1, 9, 128), (512, 32), np.float16, Configuration()),     # windows over the beginning, heads, batches
])
def test_hopper(machine, shape, windows, dtype, chosen):
    arrays = q, k, v, k2, v2 = inputs(*shape, dtype)
    o, lse = results(q)
    grid, args, meta = simplicial_attention.arguments(*arrays, o, lse, 2, windows, 0.2, chosen)
    machine.launch(simplicial_attention.kernel, grid, *args, **meta)
    check(o, lse, arrays, windows, 0.2)


@pytest.mark.parametrize("shape, windows, dtype", [
    ((2, 6, 2, 9, 20, 24), (6, 3), np.float32), ((1, 3, 3, 17, 17, 16), (40, 2), BF16)])
def test_plain(machine, shape, windows, dtype):
    arrays = q, *_ = inputs(*shape, dtype)
    o, lse = results(q)
    grid, args, meta = plain_simplicial_attention.arguments(*arrays, o, lse, windows, 0.3, exact=True)
    machine.launch(plain_simplicial_attention.kernel, grid, *args, **meta)
    check(o, lse, arrays, windows, 0.3)


@pytest.mark.long(but=["shape0-*", "shape1-*"], everywhere=True)
@pytest.mark.parametrize("shape, windows, dtype, chosen", [
    ((2, 6, 2, 9, 14, 24), (6, 3), np.float32, None), ((1, 64, 1, 3, 52, 64), (50, 3), BF16, SMALL),
    ((2, 128, 2, 1, 9, 128), (512, 32), np.float16, simplicial_attention_backward.configuration(128))])
def test_gradients(machine, shape, windows, dtype, chosen):
    """Of all five, that of the queries by the kernel for Hopper where there is a configuration; those of the logarithms are part of
    delta."""
    arrays = q, k, v, k2, v2 = inputs(*shape, dtype)
    do = inputs(*shape, dtype)[0][..., ::-1].copy()
    (o, lse), (dq, dk, dv) = reference(*arrays, windows, 0.3), (np.full(x.shape, np.nan, np.float32) for x in (q, k, v))
    dk2, dv2, delta = np.zeros(k.shape, np.float32), np.zeros(k.shape, np.float32), (o * do.astype(np.float64)).sum(-1) - 0.5
    launches = plain_simplicial_attention.gradient_arguments(
        *arrays, do, lse.astype(np.float32), delta.astype(np.float32), dq, dk, dv, dk2, dv2, windows, 0.3, exact=True)
    if chosen is not None:
        dq = np.full_like(q, np.nan)
        rows = lse.astype(np.float32), delta.astype(np.float32), dq
        launches[0] = simplicial_attention_backward.kernel, *simplicial_attention_backward.arguments(
            *arrays, do, *rows, 2, windows, 0.3, chosen)
    for kernel, grid, args, meta in launches:
        machine.launch(kernel, grid, *args, **meta)
    check_gradients((dq, dk, dv, dk2, dv2), arrays, do, lse, delta, windows, 0.3)


def check_gradients(results, arrays, do, lse, delta, windows, scale):
    """Compare with those of fp64."""
    (dq, dk, dv, dk2, dv2), (q, k, *_), dtype = results, arrays, arrays[0].dtype.type
    wide = [np.repeat(x.astype(np.float64), q.shape[1] // x.shape[1], 1) for x in arrays]
    p = np.exp(scale * np.einsum("bhid,bhjd,bhkd->bhijk", *wide[:2], wide[3]) - lse[..., None, None]) * seen(q, k, windows)
    ds = p * (np.einsum("bhid,bhjd,bhkd->bhijk", do.astype(np.float64), wide[2], wide[4]) - delta[..., None, None]) * scale
    for found, sums, letters, by in ((dq, ds, "jki", (1, 3)), (dk, ds, "ikj", (0, 3)), (dk2, ds, "ijk", (0, 1)),
                                     (dv, p, "ikj", (None, 4)), (dv2, p, "ijk", (None, 2))):
        one, other = (do.astype(np.float64) if which is None else wide[which] for which in by)
        exact = np.einsum(f"bhijk,bh{letters[0]}d,bh{letters[1]}d->bh{letters[2]}d", sums, one, other)
        exact = exact.reshape(*found.shape[:2], -1, *found.shape[2:]).sum(2)
        np.testing.assert_allclose(found.astype(np.float64), exact, rtol=0, atol=ALLOWED[dtype] * np.abs(exact).max())


def test_every_interleaving_is_right():
    arrays = inputs(1, 64, 1, 2, 40, 64, BF16)
    grid, args, meta = simplicial_attention.arguments(*arrays, *results(arrays[0]), 1, (34, 2), None, SMALL)
    report = mimw.check(simplicial_attention.kernel, grid, *args, seeds=1, **meta)
    assert report.ok, str(report)
    lse = np.zeros((1, 64, 2), np.float32)
    rows = arrays[0], lse, lse, np.zeros_like(arrays[0])
    grid, args, meta = simplicial_attention_backward.arguments(*arrays, *rows, 1, (34, 2), None, SMALL)
    report = mimw.check(simplicial_attention_backward.kernel, grid, *args, seeds=1, **meta)
    assert report.ok, str(report)


@mimw.jit
def scaled_product(row, out):
    """One product of scaled queries and keys."""
    queries, keys = tlx.local_alloc((64, 64), tl.bfloat16, 2), tlx.local_alloc((16, 64), tl.bfloat16, 1)
    at = tl.arange(0, 64)
    scale_queries(queries[0], tl.load(row + at), queries[1])
    logits = tlx.async_dot(queries[1], tlx.local_trans(keys[0]))
    tl.store(out + at[:, None] * 16 + tl.arange(0, 16)[None, :], tlx.async_dot_wait(0, logits))


def test_queries_are_scaled_where_they_are_loaded():
    """Vectors of 16 bytes of one column each: a thread scales what it has loaded, and stores it."""
    ttgir = to_ttgir(scaled_product, {"row": "*bf16", "out": "*fp32"}, target="sm_90a").stage("ttgir")
    assert ["#linear>" in line for line in ttgir.splitlines() if "local_load" in line] == [True]
    assert "tensor<64x64xbf16, #blocked" not in ttgir


@pytest.mark.parametrize("change, text", [
    (dict(k2=np.zeros((1, 1, 8, 64), BF16)), "k2 is 1 x 1 x 8 x 64"), (dict(windows=(0, 3)), "two whole numbers of 1 or more"),
    (dict(v=np.zeros((1, 1, 9, 64), np.float16)), "q is bfloat16 and v float16; both must be of one type"),
    (dict(scale=0.0), "more than 0"),
    (dict(zip(("k", "v", "k2", "v2"), inputs(1, 1, 1, 8, 8, 64, BF16))),
     "seq_k is 8 and seq_q is 9; the last query is at the last key, and"),
    (dict(lse=np.zeros((1, 64, 9), np.float64)), "lse is float64; it may be float32")])
def test_refusals(change, text):
    q, k, v, k2, v2 = inputs(1, 64, 1, 9, 9, 64, BF16)
    o, lse = results(q)
    with pytest.raises(ValueError, match=text):
        simplicial_attention.arguments(**dict(q=q, k=k, v=v, k2=k2, v2=v2, o=o, lse=lse, programs=1) | change)
    with pytest.raises(ValueError, match="a multiple of 64"):
        simplicial_attention.arguments(q[:, :32].copy(), k, v, k2, v2, o[:, :32].copy(), lse[:, :32].copy(), 1)
