"""LayerNorm and RMSNorm against numpy in fp64: both forms, types, rows that no chunk fits, residuals, means far from zero."""

import ml_dtypes
import numpy as np
import pytest

from mimw.kernels import norm
from mimw.kernels.norm import Configuration
from mimw.runtime.simulate import prepare
from tests.compiling import to_assembly
from tests.lowering.assembly import assembled

TYPES = {"fp16": np.float16, "bf16": ml_dtypes.bfloat16, "fp32": np.float32}
ROUNDED = {"fp16": 2e-3, "bf16": 1.6e-2, "fp32": 1e-5}      # of numbers of about 1
RING = Configuration("ring", 1, 128, 2, 4, 3, 2)
PAIR = Configuration("ring", 2, 64, 2, 4, 3, 2, keep=False)
DIRECT = Configuration("direct", 1, 256, 1, 4, rows=2)
SHARED = Configuration("direct", 4, 64, 1, 4)
LOOPED = Configuration("direct", 2, 64, 2, 4, early=True)
DRAWN = Configuration("ring", 2, 64, 2, 4, 4, 2, drawn=True, behind=3)
CHOICES = {"ring": RING, "ring of pairs": PAIR, "drawn": DRAWN, "direct": DIRECT, "cluster": SHARED, "loops": LOOPED}


def numbers(*shapes, dtype=np.float16, mean=0.0):
    random = np.random.default_rng(0)
    return [(mean * (len(np.atleast_1d(shape)) > 1) + random.standard_normal(shape, np.float32)).astype(dtype) for shape in shapes]


def normalised(x, w, b, centred, eps=1e-5):
    """(y, mean, rstd) in fp64."""
    wide = x.astype(np.float64)
    mean = wide.mean(1, keepdims=True) if centred else np.zeros((len(x), 1))
    rstd = 1 / np.sqrt(((wide - mean)**2).mean(1, keepdims=True) + eps)
    y = (wide - mean) * rstd
    y = y if w is None else y * w.astype(np.float64)
    return y if b is None else y + b.astype(np.float64), mean[:, 0], rstd[:, 0]


def check_norm(machine, x, w, b, chosen, centred=True, residual=None, y=None, close=2e-3):
    """y, the sum, mean and rstd are numpy's."""
    y = np.full(x.shape, np.nan, x.dtype) if y is None else y
    total = None if residual is None else np.zeros(x.shape, x.dtype)
    mean, rstd = np.full((2, len(x)), np.nan, np.float32)
    kernel, grid, args, meta = norm.arguments(x, w, b, y, residual, total, mean, rstd, centred=centred, chosen=chosen, room=2,
                                             counter=(counter := np.zeros(1, np.int32)))
    assert kernel is (norm.kernel if chosen.form == "ring" else norm.norm_direct)
    machine.launch(kernel, grid, *args, **meta)
    assert counter[0] == 0
    summed = x
    if residual is not None:
        summed = (x.astype(np.float32) + residual.astype(np.float32)).astype(x.dtype)
        assert (total == summed).all()
    expected, means, rstds = normalised(summed, w, b, centred)
    np.testing.assert_allclose(y.astype(np.float64), expected, rtol=close, atol=close)
    np.testing.assert_allclose(mean, means, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(rstd, rstds, rtol=1e-5)


@pytest.mark.parametrize("choice, dtype, n", [("ring", "fp16", 256), ("ring of pairs", "bf16", 200), ("ring of pairs", "fp32", 132),
                                              ("drawn", "bf16", 256), ("direct", "bf16", 200), ("cluster", "fp32", 132),
                                              ("loops", "fp16", 200)])
def test_rows(machine, dtype, n, choice):
    x, w, b = numbers((7, n), n, n, dtype=TYPES[dtype])
    check_norm(machine, x, w, b, CHOICES[choice], close=ROUNDED[dtype])


@pytest.mark.parametrize("choice", ["ring of pairs", "drawn", "direct", "loops"])
def test_rms_of_a_sum(machine, choice):
    """No mean, no bias, a residual."""
    x, residual, w = numbers((5, 168), (5, 168), 168)
    check_norm(machine, x, w, None, CHOICES[choice], centred=False, residual=residual)


@pytest.mark.parametrize("choice", ["ring", "ring of pairs", "cluster", "loops"])
def test_a_mean_far_from_zero(machine, choice):
    """Where E[x^2] - E[x]^2 in fp32 would be noise."""
    x, = numbers((3, 200), mean=2000)
    check_norm(machine, x, None, None, CHOICES[choice], close=5e-3)


def test_types_that_differ(machine):
    """fp32 weights, and what is wanted in fp32, of bf16 rows; only few columns are left for the last CTA."""
    x, = numbers((4, 136), dtype=ml_dtypes.bfloat16)
    w, b = numbers(136, 136, dtype=np.float32)
    for chosen in (PAIR, SHARED):
        check_norm(machine, x, w, b, chosen, y=np.zeros(x.shape, np.float32), close=1e-5)


def test_rows_that_are_apart(machine):
    """Rows of a wider matrix: at multiples of 16 bytes for the ring, at odd addresses for the direct form."""
    x, w, b = numbers((5, 240), 160, 160)
    check_norm(machine, x[:, 8:168], w, b, RING)
    check_norm(machine, x[:, 3:163], w, b, LOOPED)


def test_one_column(machine):
    check_norm(machine, *numbers((3, 1), 1, 1), norm.configuration(3, 1, 2))


@pytest.mark.long(but=["ring of pairs-4", "cluster-3", "loops-3"], everywhere=True)
@pytest.mark.parametrize("choice, seeds", [("ring", 4), ("ring of pairs", 4), ("drawn", 4), ("cluster", 3), ("loops", 3)])
def test_clean(check_kernel, choice, seeds):
    x, w, b = numbers((11, 168), 168, 168)
    counter = np.zeros(1, np.int32)
    kernel, grid, args, meta = norm.arguments(x, w, b, np.zeros_like(x), chosen=CHOICES[choice], room=2, counter=counter)
    check_kernel(kernel, grid, *args, seeds=seeds, shrink=False, rounds=False, **meta)


def compiled(by, rows, n, dtype=ml_dtypes.bfloat16, residual=False, chosen=None):
    """A launch of full size, for an sm_90a."""
    x, w = np.empty((rows, n), dtype), np.empty(n, dtype)
    extra = (x, x) if residual else (None, None)
    kernel, grid, args, meta = norm.arguments(x, w, w, x, *extra, chosen=chosen)
    found = prepare(kernel, grid, args, meta, "sm_90a").specialisation
    constants = {found.fn.arg_names[first]: value for (first, *_), value in found.constants.items()}
    return by(found.fn, found.signature, constants, target="sm_90a", options=found.options, attrs=found.attrs), meta


@pytest.mark.long(shown_by="test_direct_compiled")
def test_the_ring_of_long_rows_compiled(tmp_path):
    """Copies of whole chunks by one thread, wide accesses, no spills, and all of it fits."""
    found, meta = compiled(to_assembly, 1152, 65536)
    ptx = found.stage("ptx")
    assert meta["FORM"].CLUSTER.value == 8 and ptx.count("cp.async.bulk.shared") == 3 * meta["FORM"].CHUNKS.value
    assert "ld.shared.v4" in ptx and "st.global.v4" in ptx and "st.global.b16" not in ptx
    assert "0 bytes spill stores" in assembled(ptx, tmp_path)


@pytest.mark.long(but=["4-65536-False-16"], everywhere=True)
@pytest.mark.parametrize("rows, n, residual, ctas", [(4, 65536, False, 16), (4096, 4096, True, 1)])
def test_direct_compiled(rows, n, residual, ctas, tmp_path):
    found, meta = compiled(to_assembly, rows, n, residual=residual)
    ptx = found.stage("ptx")
    assert meta["FORM"].CLUSTER.value == ctas and "ld.global.v4" in ptx and "st.global.v4" in ptx
    assert "0 bytes spill stores" in assembled(ptx, tmp_path)


def test_configurations():
    """All lengths have one that takes them, and the ring only what it can hold."""
    for rows in (1, 4, 200, 5000):
        for n in (1, 100, 5120, 16384, 40000, 131072, 1 << 20):
            for in_bytes in (2, 4):
                chosen = norm.configuration(rows, n, in_bytes)
                assert n <= chosen.ctas * chosen.chunk * chosen.chunks and chosen.ctas <= 16
                if chosen.form == "ring":
                    assert chosen.ctas * chosen.clusters(rows) <= 132 and rows >= 132
                    part = chosen.chunk * chosen.chunks
                    assert part * (8 + chosen.stages * in_bytes) <= 232448 - 2048
    # w and b: clusters of four become eight, of parts half as long, for four consumers; w alone: four
    several = [norm.configuration(1152, 65536, 2, kept_bytes=kept) for kept in (4, 2)]
    assert [(one.ctas, one.consumers, one.warps) for one in several] == [(8, 4, 4), (4, 2, 8)]
    assert norm.configuration(1152, 65536, 2).form == "ring" and norm.configuration(1152, 65535, 2, ring=False).form == "direct"
    # 1152 rows: 64 pairs take 18 each, none fewer
    assert norm.configuration(1152, 32768, 2).clusters(1152) == 64


@pytest.mark.parametrize("change, text", [
    (dict(x=np.zeros(64, np.float16)), "x has 1 dimensions"),
    (dict(x=np.zeros((4, 64), np.int32)), "x is int32; it may be bfloat16, float16, float32"),
    (dict(y=np.zeros((4, 63), np.float16)), "y is 4 x 63; for x 4 x 64 it must be 4 x 64, .rows, N."),
    (dict(x=np.zeros((4, 128), np.float16)[:, ::2]), "x must be contiguous along its last dimension; its strides are"),
    (dict(weight=np.zeros(63, np.float16)), "weight is 63; for x 4 x 64 it must be 64, .N."),
    (dict(residual=np.zeros((4, 64), np.float16)), "residual and total go together"),
    (dict(mean=np.zeros(4, np.float16)), "mean is float16; it may be float32"),
    (dict(chosen=Configuration("direct", 1, 32, 1, 1)), "rows of 64 elements do not fit: 1 x 32 x 1 do"),
    (dict(chosen=Configuration("ring", 1, 128, 1, 4)), "rows of 64 elements do not fit: the ring takes 128 to"),
    (dict(x=np.zeros((4, 65), np.float16)[:, :64], chosen=RING), "rows of 64 elements, .65, 64. apart, are not"),
])
def test_refusals(change, text):
    given = dict(x=np.zeros((4, 64), np.float16), weight=None, bias=None, y=np.zeros((4, 64), np.float16)) | change
    with pytest.raises(ValueError, match=text):
        norm.arguments(**given)
