"""`tle.load` is `tl.load` with one more word."""

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tle as tle
from tests.language.harness import Kernel


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


@mimw.jit
def anywhere(x_ptr, y_ptr, n, N: tl.constexpr, STAGES: tl.constexpr):
    """Scalars, both branches of an `if`, loops with stages, unaligned rows, and pointers into shared memory."""
    at = tl.arange(0, N)
    total = tl.zeros((N, ), tl.int8) + tle.load(x_ptr, is_async=True)
    for k in tl.range(0, n, num_stages=STAGES):
        if k % 2 == 0:
            total += tle.load(ptr=x_ptr + 1 + k * N + at, is_async=True)
        else:
            total -= tle.load(x_ptr + 1 + k * N + at, None, None, True)
    buffer = tle.gpu.alloc([N], tl.int8)
    tl.store(tle.gpu.local_ptr(buffer), total)
    tl.store(y_ptr + at, tle.load(tle.gpu.local_ptr(buffer), is_async=True))


@pytest.mark.parametrize("stages", [1, 3])
def test_anywhere(machine, stages):
    n, size = 5, 64
    x, y = np.random.default_rng(0).integers(-9, 9, 1 + n * size).astype(np.int8), np.zeros(size, np.int8)
    machine.launch(anywhere, (1, ), x, y, n, size, stages)
    rows = x[1:].reshape(n, size)
    assert (y == x[0] + rows[::2].sum(0) - rows[1::2].sum(0)).all()


def test_refusals():
    kernel = Kernel()
    pointers, flag = kernel.tensor("p", tl.pointer_type(tl.float32), 16), kernel.tensor("b", tl.int1)
    for keywords, kind, text in [(dict(is_async=1), ValueError, "is_async must be a compile-time bool"),
                                 (dict(is_async=flag), ValueError, "must be a constexpr"), (dict(ptr=pointers), TypeError, "once"),
                                 (dict(boundary_check=(0, )), ValueError, "block pointers"),
                                 (dict(padding_option="zero"), ValueError, "block pointers")]:
        with pytest.raises(kind, match=text):
            kernel(tle.load, pointers, **keywords)
    with pytest.raises(TypeError, match="once"):
        kernel(tle.load)
