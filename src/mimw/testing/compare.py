"""Compare two arrays and say where the arrays first differ.

Input: two numpy arrays or torch tensors of one shape, and tolerances. Output: nothing, or an AssertionError:

    compare(np.array([1., 2.]), np.array([1., 3.]))
    1 of 2 elements differ by more than 0.01 + 0.01 * |expected|
      first [1]: got 2, expected 3 (off by 1)
"""

from __future__ import annotations

from typing import Any

import numpy as np


def compare(actual: Any, expected: Any, rtol: float = 1e-2, atol: float = 1e-2) -> None:
    """Pass if `|actual - expected| <= atol + rtol * |expected|` everywhere; both are compared as fp64.

    Takes numpy arrays (also of ml_dtypes) and torch tensors, of one shape. A NaN equals a NaN, an infinity only itself.
    Otherwise AssertionError, with the first coordinate in row-major order, the worst one, and how many there are.
    """
    actual, expected = _float64(actual), _float64(expected)
    if actual.shape != expected.shape:
        raise AssertionError(f"shape {actual.shape} is not the expected {expected.shape}")
    with np.errstate(invalid="ignore"):
        difference = np.abs(actual - expected)
        good = difference <= atol + rtol * np.abs(expected)
    good = np.where(np.isinf(expected), False, good)
    good |= (actual == expected) | (np.isnan(actual) & np.isnan(expected))
    if good.all():
        return
    bad = np.argwhere(~good)
    worst = tuple(bad[np.argmax(np.nan_to_num(difference[~good], nan=np.inf))])
    raise AssertionError(
        f"{len(bad)} of {good.size} elements differ by more than {atol:g} + {rtol:g} * |expected|\n"
        f"  first {_place(tuple(bad[0]), actual, expected)}\n"
        f"  worst {_place(worst, actual, expected)}")


def _place(at: tuple[int, ...], actual: np.ndarray, expected: np.ndarray) -> str:
    where = ", ".join(map(str, at))
    return f"[{where}]: got {actual[at]:.6g}, expected {expected[at]:.6g} (off by {abs(actual[at] - expected[at]):.3g})"


def _float64(array: Any) -> np.ndarray:
    if hasattr(array, "detach"):
        array = array.detach().cpu().double().numpy()
    return np.asarray(array).astype(np.float64)
