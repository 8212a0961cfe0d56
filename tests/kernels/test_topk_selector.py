"""Top-k selector against numpy: windows, ties, one digit that all share, clusters, the smallest, refusals."""

import ml_dtypes
import numpy as np
import pytest

from mimw.kernels import topk_selector
from mimw.kernels.topk_selector import Configuration, configuration

ONE, SPREAD = Configuration(1, 1, 1, 64), Configuration(4, 1, 1, 64)
RANDOM = np.random.default_rng(0)
ROWS = {
    "normal": RANDOM.standard_normal(700), "equal": np.full(500, 1.5), "few": RANDOM.integers(0, 3, 500),
    "one digit": 1 + RANDOM.integers(0, 500, 500) * 2.0**-23, "two digits": 1 + RANDOM.integers(0, 500, 500) * 2.0**-13,
    "infinities": RANDOM.choice([-np.inf, np.inf, 0.0, -0.0], 300), "huge": -np.arange(300) * 2.0**100,
}


def check(machine, x, k, chosen, starts=None, ends=None, largest=True, values=None):
    places = np.full((x.shape[0], k), -7, np.int32)
    grid, args, meta = topk_selector.arguments(x, starts, ends, places, values, chosen, largest)
    machine.launch(topk_selector.kernel, grid, *args, **meta)
    for row, found in enumerate(places):
        begin, end = (0, x.shape[1]) if starts is None else (max(0, starts[row]), min(ends[row], x.shape[1]))
        many = min(k, max(0, end - begin))
        assert (found[many:] == -1).all() and len(set(found[:many])) == many
        assert ((found[:many] >= begin) & (found[:many] < end)).all()
        order = np.sort(x[row, begin:max(begin, end)].astype(np.float32))
        expected = order[::-1][:many] if largest else order[:many]
        np.testing.assert_array_equal(np.sort(x[row, found[:many]].astype(np.float32)), np.sort(expected))
        if values is not None:
            np.testing.assert_array_equal(values[row, :many], x[row, found[:many]])


@pytest.mark.long(everywhere=True, but=[
    "normal-*", "equal-cluster", "few-one CTA", "one digit-cluster", "two digits-one CTA", "infinities-cluster", "huge-one CTA"])
@pytest.mark.parametrize("chosen", [ONE, SPREAD], ids=["one CTA", "cluster"])
@pytest.mark.parametrize("name", ROWS)
def test_rows(machine, name, chosen):
    x = ROWS[name].astype(np.float32)[None]
    check(machine, x, 30, chosen, largest=name != "few", values=np.full((1, 30), np.nan, np.float32))


@pytest.mark.parametrize("dtype, chosen", [(np.float32, SPREAD), (ml_dtypes.bfloat16, ONE)])
def test_windows(machine, dtype, chosen):
    """Whole, inside of tiles, as long as k and shorter, empty, the wrong way round, past both ends."""
    x = RANDOM.standard_normal((7, 530)).astype(dtype)
    starts = np.array([0, 13, 500, 520, 40, 90, -5], np.int32)
    ends = np.array([530, 450, 530, 529, 40, 20, 999], np.int32)
    check(machine, x, 30, chosen, starts, ends)


@pytest.mark.parametrize("largest, places", [(True, {4, 9, 2}), (False, {1, 8, 3})])
def test_nan_is_larger_than_all_numbers(machine, largest, places):
    x = np.array([[1, -np.inf, np.inf, -2, np.nan, 3, -1, 0, -3, -np.nan]], np.float32)
    found = np.zeros((1, 3), np.int64)
    grid, args, meta = topk_selector.arguments(x, None, None, found, None, ONE, largest)
    machine.launch(topk_selector.kernel, grid, *args, **meta)
    assert set(found[0].tolist()) == places


@pytest.mark.parametrize("chosen", [ONE, SPREAD], ids=["one CTA", "cluster"])
def test_clean(check_kernel, chosen):
    """Candidates that fit, and a row of equal numbers, which are counted three times."""
    x = np.concatenate([RANDOM.standard_normal((1, 300)), np.full((1, 300), 2.0)]).astype(np.float32)
    grid, args, meta = topk_selector.arguments(x, None, None, np.zeros((2, 20), np.int32), None, chosen)
    check_kernel(topk_selector.kernel, grid, *args, seeds=4, **meta)


def test_few_long_rows_are_shared():
    sizes = (1, 4096), (1, 131072), (1, 524288), (64, 8192), (64, 524288), (512, 524288)
    assert [configuration(m, n, 2048).ctas for m, n in sizes] == [1, 8, 16, 1, 2, 1]


@pytest.mark.parametrize("change, text", [
    (dict(starts=None), "both starts and ends"), (dict(ends=np.zeros(3, np.int32)), "ends is 3; for x 4 x 99 it must be 4, .M."),
    (dict(indices=np.zeros((4, 9), np.int32)[:, :8]), "indices must be contiguous; its strides are 9 and 1 elements"),
    (dict(x=np.zeros((4, 99), np.int32)), "x is int32"),
    (dict(x=np.zeros((4, 99), np.float32)[:, ::2]), "x must be contiguous along its last dimension; its strides are 99"),
    (dict(chosen=Configuration(1, 1, 1, 4)), "8 or more"),
    (dict(values=np.zeros((4, 8), np.float16)), "x is float32 and values float16; both must be of one type")])
def test_refusals(change, text):
    given = dict(x=np.zeros((4, 99), np.float32), starts=np.zeros(4, np.int32), ends=np.zeros(4, np.int32),
                 indices=np.zeros((4, 8), np.int32)) | change
    with pytest.raises(ValueError, match=text):
        topk_selector.arguments(**given)
