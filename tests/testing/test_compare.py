"""`compare` accepts rounding and names the first wrong element."""

import ml_dtypes
import numpy as np
import pytest

from mimw.testing import compare


@pytest.mark.parametrize("actual, expected", [
    ([1.0, 2.0], [1.0, 2.0]),
    ([1.009], [1.0]),
    ([np.nan, np.inf, -np.inf], [np.nan, np.inf, -np.inf]),
    (np.ones((0, 4)), np.ones((0, 4))),
    (np.ones(4, ml_dtypes.bfloat16), np.ones(4, np.float32)),
])
def test_accepts(actual, expected):
    compare(np.asarray(actual), np.asarray(expected))


@pytest.mark.parametrize("actual, expected", [
    ([1.03], [1.0]), ([np.nan], [1.0]), ([1.0], [np.nan]), ([np.inf], [1.0]), ([1.0], [np.inf]), ([np.inf], [-np.inf]),
])
def test_refuses(actual, expected):
    with pytest.raises(AssertionError, match="1 of 1 elements differ"):
        compare(np.asarray(actual), np.asarray(expected))


def test_names_the_first_and_the_worst():
    expected = np.zeros((4, 4))
    actual = expected.copy()
    actual[1, 2], actual[3, 0] = 1.0, -5.0
    with pytest.raises(AssertionError) as error:
        compare(actual, expected)
    assert str(error.value) == ("2 of 16 elements differ by more than 0.01 + 0.01 * |expected|\n"
                                "  first [1, 2]: got 1, expected 0 (off by 1)\n"
                                "  worst [3, 0]: got -5, expected 0 (off by 5)")


def test_refuses_another_shape():
    with pytest.raises(AssertionError, match=r"shape \(2,\) is not the expected \(2, 1\)"):
        compare(np.ones(2), np.ones((2, 1)))
