"""Exclusive sums and totals: every type rule, both directions, anywhere in a kernel, with one exchange between warps."""

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx
from mimw.testing import compare
from tests.compiling import to_assembly
from tests.language.harness import Kernel


@mimw.jit
def sums(x_ptr, y_ptr, total_ptr, N: tl.constexpr, REVERSE: tl.constexpr, DTYPE: tl.constexpr):
    at = tl.arange(0, N)
    exclusive, total = tle.cumsum(tl.load(x_ptr + at), 0, REVERSE, DTYPE)
    tl.store(y_ptr + at, exclusive)
    tl.store(total_ptr, total)


def expected(x, reverse):
    x = x[::-1] if reverse else x
    y = np.concatenate([np.zeros(1, x.dtype), np.cumsum(x, dtype=x.dtype)])
    return (y[:-1][::-1] if reverse else y[:-1]), y[-1]


def launch(machine, x, reverse=False, dtype=None, out=None, **meta):
    y, total = np.zeros(x.shape, out or x.dtype), np.zeros(1, out or x.dtype)
    machine.launch(sums, (1, ), x, y, total, x.size, reverse, dtype, **meta)
    return y, total[0]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("n, num_warps", [(1, 4), (16, 4), (64, 1), (512, 4), (2048, 8), (4096, 1), (8192, 4)])
def test_integers_are_exact(machine, n, num_warps, reverse):
    x = np.random.default_rng(n).integers(-2**31, 2**31, n).astype(np.int32)
    y, total = launch(machine, x, reverse, num_warps=num_warps)
    wanted = expected(x, reverse)
    assert (y == wanted[0]).all() and total == wanted[1]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64])
def test_floats(machine, dtype, reverse):
    x = np.random.default_rng(1).standard_normal(1024).astype(dtype)
    y, total = launch(machine, x, reverse)
    wanted = expected(x.astype(np.float64), reverse)
    tolerance = {np.float16: 0.2, np.float32: 1e-3, np.float64: 1e-10}[dtype]
    compare(y, wanted[0], rtol=0, atol=tolerance)
    assert abs(float(total) - wanted[1]) < tolerance


def test_an_infinity_shows_after_itself_only(machine):
    x = np.ones(256, np.float32)
    x[100] = np.inf
    y, total = launch(machine, x)
    assert (y[:101] == np.arange(101)).all() and np.isinf(y[101:]).all() and np.isinf(total)


@pytest.mark.parametrize("dtype, out", [(np.int8, np.int32), (np.uint8, np.uint32), (np.int16, np.int32), (np.uint16, np.uint32),
                                        (np.int64, np.int64)])
def test_types(machine, dtype, out):
    x = (np.arange(128) * 3).astype(dtype)
    y, total = launch(machine, x, out=out)
    wanted = expected(x.astype(out), False)
    assert (y == wanted[0]).all() and total == wanted[1]


def test_a_given_type_comes_first(machine):
    x = np.full(64, 1.9, np.float32)
    y, total = launch(machine, x, dtype=tl.int16, out=np.int16)
    assert (y == np.arange(64)).all() and total == 64


@pytest.mark.parametrize("dtype, result", [(tl.int1, tl.int32), (tl.int8, tl.int32), (tl.uint8, tl.uint32), (tl.uint16, tl.uint32),
                                           (tl.bfloat16, tl.float32), (tl.float16, tl.float16), (tl.uint64, tl.uint64)])
def test_result_types(dtype, result):
    kernel = Kernel()
    exclusive, total = kernel(tle.cumsum, kernel.tensor("x", dtype, 64), axis=-1)
    assert exclusive.dtype == total.dtype == result
    assert list(exclusive.shape) == [64] and not total.type.is_block()
    zero, whole = kernel(tle.cumsum, kernel.tensor("s", dtype))
    assert zero.dtype == whole.dtype == result and not whole.type.is_block()


@mimw.jit
def ranked(flags, base):
    """Where the true ones go, from `base` on, and where the next would."""
    before, count = tle.cumsum(flags)
    return base + before, base + count


@mimw.jit
def in_places(x_ptr, y_ptr, n_ptr, reverse, N: tl.constexpr, STEPS: tl.constexpr):
    """In a helper, a loop, under an `if`, in a task of one warp and in the default task, all next to a sentinel."""
    guard = tlx.local_alloc((64, ), tl.int32, 1)
    tlx.local_store(guard[0], tl.full((64, ), 77, tl.int32))
    with tlx.async_tasks():
        with tlx.async_task("default"):
            at, base = tl.arange(0, N), 0
            for step in range(STEPS):
                x = tl.load(x_ptr + step * N + at)
                place, base = ranked(x > 0, base)
                tl.store(y_ptr + place, x, mask=x > 0)
            tl.store(n_ptr, base)
        with tlx.async_task(num_warps=1):
            at = tl.arange(0, N)
            x = tl.load(x_ptr + at)
            if reverse > 0:
                sums, total = tle.cumsum(x, reverse=True)
            else:
                sums, total = tle.cumsum(x)
            tl.store(y_ptr + STEPS * N + at, sums)
            tl.store(n_ptr + 1, total)
    tl.store(n_ptr + 2, tl.sum(tlx.local_load(guard[0]), 0))


@pytest.mark.parametrize("reverse", [0, 1])
def test_anywhere(machine, reverse):
    n, steps = 256, 3
    x = np.random.default_rng(2).integers(-9, 10, n * steps).astype(np.int32)
    y, counts = np.zeros(n * (steps + 1), np.int32), np.zeros(3, np.int32)
    machine.launch(in_places, (1, ), x, y, counts, reverse, n, steps)
    kept, wanted = x[x > 0], expected(x[:n], bool(reverse))
    assert list(counts) == [kept.size, wanted[1], 64 * 77]
    assert (y[:kept.size] == kept).all() and (y[n * steps:] == wanted[0]).all()


@pytest.mark.parametrize("keywords, text", [(dict(axis=1), "axis must be 0, got 1"), (dict(axis=None), "axis must be 0"),
                                            (dict(reverse=1), "reverse must be a compile-time bool"),
                                            (dict(dtype=3), "dtype must be an element type")])
def test_refusals(keywords, text):
    kernel = Kernel()
    with pytest.raises(ValueError, match=text):
        kernel(tle.cumsum, kernel.tensor("x", tl.int32, 64), **keywords)


def test_what_has_no_sums():
    kernel = Kernel()
    for x, text in [(kernel.tensor("m", tl.int32, 8, 8), "rank 1"), (None, "rank 1"),
                    (kernel.tensor("f", tl.float8e5, 8), "cannot be added"),
                    (kernel.tensor("p", tl.pointer_type(tl.int32), 8), "cannot be added")]:
        with pytest.raises(ValueError, match=text):
            kernel(tle.cumsum, x)
    for name in ("reverse", "axis"):
        with pytest.raises(ValueError, match="must be a constexpr"):
            kernel(tle.cumsum, kernel.tensor("x", tl.int32, 8), **{name: kernel.tensor("r", tl.int32)})


@pytest.mark.parametrize("n, num_warps", [(512, 4), (1024, 16), (2048, 8)])
@pytest.mark.parametrize("dtype", ["i32", "fp32"])
def test_one_exchange_between_warps(dtype, n, num_warps):
    pointer = f"*{dtype}"
    ptx = to_assembly(
        sums, {"x_ptr": pointer, "y_ptr": pointer, "total_ptr": pointer}, dict(N=n, REVERSE=False, DTYPE=None),
        options=dict(num_warps=num_warps), attrs={(i, ): [["tt.divisibility", 16]] for i in range(2)}).stage("ptx")
    assert ptx.count("bar.sync") == 1
