"""Softmax, its logarithm and their gradients against numpy in fp64: both forms, types, infinities, rows that no chunk fits."""

import ml_dtypes
import numpy as np
import pytest

from mimw.kernels import softmax
from mimw.kernels.softmax import Configuration
from mimw.runtime.simulate import prepare
from tests.compiling import to_assembly
from tests.lowering.assembly import assembled

TYPES = {"fp16": np.float16, "bf16": ml_dtypes.bfloat16, "fp32": np.float32}
ROUNDED = {"fp16": 1e-3, "bf16": 8e-3, "fp32": 2e-6}
RING = Configuration("ring", 1, 128, 2, 4, 3, 2)
PAIR = Configuration("ring", 2, 64, 2, 4, 3, 2)
DIRECT = Configuration("direct", 1, 256, 1, 4, rows=2)
SHARED = Configuration("direct", 4, 64, 1, 4)
LOOPED = Configuration("direct", 2, 64, 2, 4)
CHOICES = {"ring": RING, "ring of pairs": PAIR, "direct": DIRECT, "cluster": SHARED, "loops": LOOPED}


def numbers(*shapes, dtype=np.float16):
    random = np.random.default_rng(0)
    return [(3 * random.standard_normal(shape, np.float32)).astype(dtype) for shape in shapes]


def expected_of(x, log=False):
    wide = x.astype(np.float64)
    with np.errstate(invalid="ignore"):
        shifted = wide - wide.max(1, keepdims=True)
        y = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    return y if log else np.exp(y)


def check_softmax(machine, x, chosen, log=False, close=1e-3):
    y = np.full(x.shape, -7, x.dtype)
    kernel, grid, args, meta = softmax.arguments(x, y, log, chosen, room=2)
    machine.launch(kernel, grid, *args, **meta)
    np.testing.assert_allclose(y.astype(np.float64), expected_of(x, log), rtol=close, atol=close)


@pytest.mark.parametrize("choice, dtype, n, log", [
    ("ring", "fp16", 256, False), ("ring of pairs", "bf16", 200, False), ("ring of pairs", "fp32", 132, True),
    ("direct", "bf16", 200, True), ("cluster", "fp32", 132, True), ("loops", "fp16", 200, True)])
def test_rows(machine, dtype, n, log, choice):
    check_softmax(machine, *numbers((5, n), dtype=TYPES[dtype]), CHOICES[choice], log, ROUNDED[dtype])


@pytest.mark.parametrize("choice", CHOICES)
def test_infinities(machine, choice):
    """-inf here and there, in all of a CTA's part, in all of a row; a NaN; numbers whose powers are too large for fp32."""
    x = 100 * numbers((5, 168), dtype=np.float32)[0]
    x[0, ::3], x[1, :150], x[2], x[3, 7] = -np.inf, -np.inf, -np.inf, np.nan
    check_softmax(machine, x, CHOICES[choice], close=1e-4)


@pytest.mark.long(but=["ring-softmax", "ring of pairs-log", "direct-softmax", "cluster-log", "loops-softmax"], everywhere=True)
@pytest.mark.parametrize("log", [False, True], ids=["softmax", "log"])
@pytest.mark.parametrize("choice", CHOICES)
def test_gradients(machine, choice, log):
    x, dy = numbers((5, 168), (5, 168), dtype=np.float32)
    y, dx = expected_of(x, log).astype(np.float32), np.full(x.shape, np.nan, np.float32)
    kernel, grid, args, meta = softmax.gradient_arguments(y, dy, dx, log, CHOICES[choice], room=2)
    machine.launch(kernel, grid, *args, **meta)
    wide = y.astype(np.float64)
    expected = dy - np.exp(wide) * dy.sum(1, keepdims=True) if log else wide * (dy - (wide * dy).sum(1, keepdims=True))
    np.testing.assert_allclose(dx, expected, rtol=1e-5, atol=2e-5)


def test_rows_that_are_apart(machine):
    x, = numbers((5, 240))
    check_softmax(machine, x[:, 8:168], RING)
    check_softmax(machine, x[:, 3:163], LOOPED)


@pytest.mark.parametrize("choice, seeds", [("ring", 4), ("ring of pairs", 4), ("cluster", 3)])
def test_clean(check_kernel, choice, seeds):
    x, = numbers((9, 168))
    kernel, grid, args, meta = softmax.arguments(x, np.zeros_like(x), chosen=CHOICES[choice], room=2)
    check_kernel(kernel, grid, *args, seeds=seeds, shrink=False, rounds=False, **meta)


@pytest.mark.parametrize("chosen", [SHARED, PAIR], ids=["cluster", "ring of pairs"])
def test_the_gradient_of_a_cluster_is_clean(check_kernel, chosen):
    y, dy = numbers((9, 168), (9, 168))
    kernel, grid, args, meta = softmax.gradient_arguments(y, dy, np.zeros_like(y), chosen=chosen, room=2)
    check_kernel(kernel, grid, *args, seeds=3, shrink=False, rounds=False, **meta)


@pytest.mark.long(but=["4-65536"], everywhere=True)
@pytest.mark.parametrize("rows, n", [(1152, 65536), (4, 65536)])
def test_compiled(rows, n, tmp_path):
    """Wide accesses, and no spills."""
    x = np.empty((rows, n), ml_dtypes.bfloat16)
    chosen = Configuration("ring", 16, 2048, 2, 8, 6, 2) if rows > 4 else None     # parts of 8 KB: less to compile
    kernel, grid, args, meta = softmax.arguments(x, x, chosen=chosen)
    found = prepare(kernel, grid, args, meta, "sm_90a").specialisation
    constants = {found.fn.arg_names[first]: value for (first, *_), value in found.constants.items()}
    ptx = to_assembly(found.fn, found.signature, constants, target="sm_90a", options=found.options, attrs=found.attrs).stage("ptx")
    assert ("cp.async.bulk.shared" in ptx) == (rows == 1152) and "st.global.v4" in ptx and "st.global.b16" not in ptx
    assert "0 bytes spill stores" in assembled(ptx, tmp_path)


@pytest.mark.parametrize("change, text", [
    (dict(x=np.zeros(64, np.float16)), "x has 1 dimensions"),
    (dict(x=np.zeros((4, 64), np.int32)), "x is int32; it may be bfloat16, float16, float32"),
    (dict(y=np.zeros((4, 63), np.float16)), "y is 4 x 63; for x 4 x 64 it must be 4 x 64, .rows, N."),
    (dict(chosen=Configuration("direct", 1, 32, 1, 1)), "rows of 64 elements do not fit: 1 x 32 x 1 do"),
    (dict(chosen=Configuration("ring", 1, 128, 1, 4)), "rows of 64 elements do not fit: the ring takes 128 to"),
    (dict(x=np.zeros((4, 65), np.float16)[:, :64], chosen=RING), "rows of 64 elements, 65 and 64 apart, are not"),
])
def test_refusals(change, text):
    given = dict(x=np.zeros((4, 64), np.float16), y=np.zeros((4, 64), np.float16)) | change
    with pytest.raises(ValueError, match=text):
        softmax.arguments(**given)
