"""Top-k against numpy: types, ties, infinities, rows that no block fits, rows spread over a cluster."""

import ml_dtypes
import numpy as np
import pytest

from mimw.kernels import topk
from mimw.kernels.topk import Configuration
from tests.compiling import to_assembly

TYPES = {"fp16": np.float16, "bf16": ml_dtypes.bfloat16, "fp32": np.float32}
ONE_WARP, SPREAD = Configuration(warps=1, copies=1), Configuration(ctas=2, warps=4)
CHOICES = {"one warp": ONE_WARP, "four": Configuration(warps=4), "narrow digits": Configuration(warps=2, digit=4),
           "cluster": SPREAD, "cluster of 4": Configuration(ctas=4, warps=1, copies=2)}


def check_topk(machine, x, k, chosen=None):
    """The kernel's values are the k largest of each row, and its indices say where they are."""
    values, indices = np.zeros((x.shape[0], k), x.dtype), np.full((x.shape[0], k), -1, np.int32)
    grid, args, meta = topk.arguments(x, values, indices, chosen)
    machine.launch(topk.kernel, grid, *args, **meta)
    wide = x.astype(np.float32)
    assert (np.sort(values.astype(np.float32)) == np.sort(wide)[:, x.shape[1] - k:]).all()
    assert (np.take_along_axis(x, indices, 1).view(np.uint8) == values.view(np.uint8)).all()
    assert all(len(set(row)) == k for row in indices)


@pytest.mark.long(but=["fp16-one warp", "fp16-narrow digits", "bf16-four", "fp32-cluster", "fp32-cluster of 4"], everywhere=True)
@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("dtype", TYPES)
def test_types_and_configurations(machine, dtype, choice):
    x = np.random.default_rng(0).standard_normal((3, 600)).astype(TYPES[dtype])
    check_topk(machine, x, 50, CHOICES[choice])


@pytest.mark.parametrize("n, k", [(1, 1), (7, 3), (31, 31), (128, 8), (1000, 1), (1000, 999), (1024, 32), (1025, 1025),
                                  (8192, 128)])
def test_default_configurations(machine, n, k):
    check_topk(machine, np.random.default_rng(n).standard_normal((2, n)).astype(np.float16), k)


@pytest.mark.long(everywhere=True, but=[
    "True-3-columns0-cluster", "True-5-columns1-one warp", "False-3-columns2-one warp", "False-8-columns3-cluster"])
@pytest.mark.parametrize("chosen", [ONE_WARP, SPREAD], ids=["one warp", "cluster"])
@pytest.mark.parametrize("largest, k, columns", [(True, 3, {4, 9, 2}), (True, 5, {4, 9, 2, 5, 0}), (False, 3, {1, 8, 3}),
                                                 (False, 8, {1, 8, 3, 6, 7, 0, 5, 2})])
def test_smallest_and_nan(machine, largest, k, columns, chosen):
    """NaN of both signs is larger than inf, so the smallest leave it out; places may be int64."""
    x = np.array([[1, -np.inf, np.inf, -2, np.nan, 3, -1, 0, -3, -np.nan]], np.float32)
    values, indices = np.zeros((1, k), np.float32), np.zeros((1, k), np.int64)
    grid, args, meta = topk.arguments(x, values, indices, chosen, largest, nan=True)
    machine.launch(topk.kernel, grid, *args, **meta)
    assert set(indices[0].tolist()) == columns
    np.testing.assert_array_equal(values, np.take_along_axis(x, indices, 1))


@pytest.mark.long(but=["1-fp16-*", "100-bf16-*", "257-fp32-*", "300-fp16-*"], everywhere=True)
@pytest.mark.parametrize("k, dtype, chosen", [
    pytest.param(k, dtype, chosen, marks=[pytest.mark.gpu] * ((a + b + c) % 2), id=f"{k}-{dtype}-{form}")
    for a, k in enumerate([1, 100, 257, 300]) for b, dtype in enumerate(TYPES)
    for c, (form, chosen) in enumerate({"one warp": ONE_WARP, "cluster": SPREAD}.items())])
def test_ties_infinities_and_zeros_of_both_signs(machine, k, dtype, chosen):
    """All equal; few values; -inf, which is larger than what is not there; 0.0 counts as larger than -0.0."""
    random = np.random.default_rng(k)
    rows = [np.full(300, 1.5), random.integers(0, 3, 300), np.full(300, -np.inf), random.choice([-np.inf, np.inf, 0.0], 300),
            random.choice([0.0, -0.0], 300), -np.arange(300) * 2.0**100 if dtype != "fp16" else -np.arange(300) / 1024]
    check_topk(machine, np.array(rows).astype(TYPES[dtype]), k, chosen)


def test_zero_is_above_minus_zero(machine):
    x = np.tile(np.array([-0.0, 0.0], np.float32), (1, 32))
    values, indices = np.full((1, 32), np.nan, np.float32), np.zeros((1, 32), np.int32)
    grid, args, meta = topk.arguments(x, values, indices, ONE_WARP)
    machine.launch(topk.kernel, grid, *args, **meta)
    assert not np.signbit(values).any() and (np.sort(indices) == np.arange(1, 64, 2)).all()


def test_rows_that_are_apart(machine):
    """Rows of a wider matrix, starting at odd addresses."""
    check_topk(machine, np.random.default_rng(0).standard_normal((3, 77)).astype(np.float16)[:, 3:70], 9)


def test_more_results_than_the_list_holds(machine):
    check_topk(machine, np.random.default_rng(0).standard_normal((1, 8192)).astype(np.float32), 6000)


@pytest.mark.parametrize("chosen", [ONE_WARP, SPREAD], ids=["one warp", "cluster"])
def test_clean(check_kernel, chosen):
    x = np.random.default_rng(0).integers(0, 50, (2, 100)).astype(np.float16)
    grid, args, meta = topk.arguments(x, np.zeros((2, 10), x.dtype), np.zeros((2, 10), np.int32), chosen)
    check_kernel(topk.kernel, grid, *args, **meta)


def test_a_row_is_read_once_and_stays_where_it_is():
    """Wide loads, and no tile of the row goes from thread to thread."""
    meta = topk.configuration(16384).meta(16384, 256, 2)
    warps = meta.pop("num_warps")
    signature = dict(x_ptr="*fp16", values_ptr="*fp16", indices_ptr="*i32", N="i32", K="i32", stride="i32")
    compiled = to_assembly(topk.kernel, signature, meta, "sm_90a", options=dict(num_warps=warps),
                              attrs={(i, ): [["tt.divisibility", 16]] for i in range(6)})
    ttgir, ptx = str(compiled.stages["ttgir"]), compiled.stages["ptx"]
    moved = [line for line in ttgir.splitlines() if "convert_layout" in line and "tensor<16384x" in line]
    assert len(moved) == 1 and "xf16" in moved[0]  # the pin, of what was loaded in that order already
    assert ptx.count("ld.global.v4.b32") == 16384 // (32 * warps * 8)


@pytest.mark.parametrize("change, text", [
    (dict(x=np.zeros(64, np.float16)), "x has 1 dimensions"),
    (dict(values=np.zeros((4, 65), np.float16), indices=np.zeros((4, 65), np.int32)),
     "k is 65 and N is 64; no more are chosen than a row has"),
    (dict(values=np.zeros((4, 0), np.float16), indices=np.zeros((4, 0), np.int32)),
     "values is empty, 4 x 0: there is nothing to compute"),
    (dict(indices=np.zeros((4, 7), np.int32)), "indices is 4 x 7; for x 4 x 64 and values 4 x 8 it must be 4 x 8,"),
    (dict(x=np.zeros((4, 64), np.int32)), "x is int32; it may be bfloat16, float16, float32"),
    (dict(values=np.zeros((4, 8), np.float32)), "x is float16 and values float32; both must be of one type"),
    (dict(indices=np.zeros((4, 8), np.int16)), "indices is int16; it may be int32, int64"),
    (dict(x=np.zeros((4, 128), np.float16)[:, ::2]), "x must be contiguous along its last dimension; its strides are"),
    (dict(values=np.zeros((4, 16), np.float16)[:, :8]), "values must be contiguous; its strides are 16 and 1 elements"),
    (dict(x=np.zeros((4, 1 << 20), np.float16)), "do not fit"),
])
def test_refusals(change, text):
    given = dict(x=np.zeros((4, 64), np.float16), values=np.zeros((4, 8), np.float16), indices=np.zeros((4, 8), np.int32)) | change
    with pytest.raises(ValueError, match=text):
        topk.arguments(**given)
