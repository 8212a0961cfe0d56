"""`tle.load` is `tl.load` with one more word."""

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tle as tle


@mimw.jit
def copy(x_ptr, y_ptr, n, HINT: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(y_ptr + at, tle.load(x_ptr + at, at < n, 7, is_async=HINT))


@pytest.mark.parametrize("hint", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8])
def test_the_hint_changes_nothing(machine, dtype, hint):
    x, y = np.arange(64, dtype=dtype), np.zeros(64, dtype)
    machine.launch(copy, (1, ), x, y, 50, hint, 64)
    assert (y == np.where(np.arange(64) < 50, x, dtype(7))).all()
