"""Every atomic of `tl` on shared memory, with duplicates, masks and tiles smaller than the CTA; each element exactly once."""

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tle as tle
from mimw.errors import TargetError
from mimw.runtime.compile_kernel import compile_kernel
from tests.kernels.swizzled import swizzled


@mimw.jit
def apply(x, picks, values, mask, y, old, N: tl.constexpr, T: tl.constexpr, KIND: tl.constexpr, MMA: tl.constexpr):
    """One atomic of a tile of T values on N elements, as rows of 8."""
    buffer = tle.gpu.alloc([N // 8, 8], x.dtype.element_ty, swizzled([N // 8, 8], x.dtype.element_ty, MMA))
    all = tl.arange(0, N // 8)[:, None] * 8 + tl.arange(0, 8)[None, :]
    tl.store(tle.gpu.local_ptr(buffer), tl.load(x + all))
    at = tl.arange(0, T)
    pick, value, asked = tl.load(picks + at), tl.load(values + at), tl.load(mask + at) != 0
    pointers = tle.gpu.local_ptr(buffer, (pick // 8, pick % 8))
    if KIND == "add":
        was = tl.atomic_add(pointers, value, mask=asked)
    elif KIND == "max":
        was = tl.atomic_max(pointers, value, mask=asked, sem="relaxed")
    elif KIND == "min":
        was = tl.atomic_min(pointers, value, mask=asked, scope="cta")
    elif KIND == "and":
        was = tl.atomic_and(pointers, value, mask=asked)
    elif KIND == "or":
        was = tl.atomic_or(pointers, value, mask=asked)
    elif KIND == "xor":
        was = tl.atomic_xor(pointers, value, mask=asked)
    elif KIND == "xchg":
        was = tl.atomic_xchg(pointers, value, mask=asked)
    elif KIND == "cas":
        was = tl.atomic_cas(pointers, value, value + 1)
    tl.store(old + at, was, mask=asked)
    tl.store(y + all, tl.load(tle.gpu.local_ptr(buffer)))


FUNCTIONS = {"add": np.add, "max": np.maximum, "min": np.minimum, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
INTEGERS = [np.int32, np.uint32, np.int64, np.uint64]
CASES = [(kind, dtype) for dtype in INTEGERS for kind in FUNCTIONS] + [
    ("add", np.float32), ("max", np.float32), ("min", np.float32), ("add", np.float64), ("add", np.float16)]


def operands(dtype, size, picks, seed=0):
    random = np.random.default_rng(seed)
    low = -50 if np.dtype(dtype).kind != "u" else 0
    x = random.integers(low, 50, size).astype(dtype)
    where = random.integers(0, size, picks).astype(np.int32)
    return x, where, random.integers(low, 50, picks).astype(dtype), random.integers(0, 2, picks).astype(np.int8)


@pytest.mark.long(everywhere=[
    "add-float16-True", "add-float32-True", "add-float64-True", "and-int32-True", "max-int64-True", "min-uint64-False",
    "or-int32-True", "xor-uint32-True"])
@pytest.mark.parametrize("mma", [True, False])
@pytest.mark.parametrize("kind, dtype", CASES)
def test_duplicates_are_all_applied(machine, kind, dtype, mma):
    x, picks, values, mask = operands(dtype, 64, 32)
    y, old, expected = np.zeros_like(x), np.zeros_like(values), x.copy()
    machine.launch(apply, (1, ), x, picks, values, mask, y, old, 64, 32, kind, mma)
    FUNCTIONS[kind].at(expected, picks[mask != 0], values[mask != 0])
    assert (y == expected).all()


@pytest.mark.parametrize("dtype", [*INTEGERS, np.float32, np.float64])
@pytest.mark.parametrize("kind", ["xchg", "add"])
def test_old_values(machine, kind, dtype):
    """Of different elements, each is what was there."""
    x, _, values, mask = operands(dtype, 64, 32, 1)
    picks = np.random.default_rng(5).permutation(64)[:32].astype(np.int32)
    y, old = np.zeros_like(x), np.zeros_like(values)
    machine.launch(apply, (1, ), x, picks, values, mask, y, old, 64, 32, kind, True)
    assert (old == np.where(mask != 0, x[picks], 0)).all()
    assert (y[picks] == np.where(mask != 0, values if kind == "xchg" else x[picks] + values, x[picks])).all()


@pytest.mark.long(everywhere=["float32-True-1-32", "int16-False-4-32", "int32-True-1-32", "int64-False-4-256", "uint64-True-4-1"])
@pytest.mark.parametrize("warps, size", [(1, 32), (4, 32), (4, 256), (4, 1)])
@pytest.mark.parametrize("mma", [True, False])
@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint64, np.int16, np.float32])
def test_compare_and_swap(machine, dtype, mma, warps, size):
    """Elements that hold the value become the next; all copies of a result are the same."""
    random = np.random.default_rng(3)
    x = random.integers(0, 3, 256).astype(dtype)
    picks, values = random.permutation(256)[:size].astype(np.int32), random.integers(0, 3, size).astype(dtype)
    mask, y, old = np.ones(size, np.int8), np.zeros_like(x), np.zeros(size, dtype)
    machine.launch(apply, (1, ), x, picks, values, mask, y, old, 256, size, "cas", mma, num_warps=warps)
    expected = x.copy()
    expected[picks] = np.where(x[picks] == values, values + 1, x[picks])
    assert (old == x[picks]).all() and (y == expected).all()


@mimw.jit
def count_down(y, rounds, N: tl.constexpr, WARPS_TEST: tl.constexpr):
    """Atomics on one scalar in a loop, between stores and loads of the tile it is in."""
    buffer = tle.gpu.alloc([N], tl.int32, init_value=tl.zeros([N], tl.int32))
    at = tl.arange(0, N)
    pointers, first = tle.gpu.local_ptr(buffer), tle.gpu.local_ptr(buffer, (0, ))
    total = 0
    for i in range(rounds):
        total += tl.atomic_add(first, 1)
        tl.atomic_add(pointers, at)
        if tl.load(first + 1) > 2:
            tl.store(first + 1, 0)
        total += tl.atomic_cas(first + 2, 2, 100)
    tl.store(y + at, tl.load(pointers))
    tl.store(y + N, total)


@pytest.mark.parametrize("warps", [1, 8])
def test_scalar_atomics_in_a_loop(machine, warps):
    n, rounds = 64, 6
    y = np.zeros(n + 1, np.int32)
    machine.launch(count_down, (1, ), y, rounds, n, 0, num_warps=warps)
    held, total = np.zeros(n, np.int64), 0
    for _ in range(rounds):
        total += held[0]
        held[0] += 1
        held += np.arange(n)
        held[1] = 0 if held[1] > 2 else held[1]
        total += held[2]
        held[2] = 100 if held[2] == 2 else held[2]
    assert (y[:n] == held).all() and y[n] == total


@mimw.jit
def histogram(x, y, n, BINS: tl.constexpr, BLOCK: tl.constexpr):
    counts = tle.gpu.alloc([BINS], tl.int32, init_value=tl.zeros([BINS], tl.int32))
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        tl.atomic_add(tle.gpu.local_ptr(counts, (tl.load(x + at, mask=at < n, other=0), )), 1, mask=at < n)
    bins = tl.arange(0, BINS)
    tl.store(y + bins, tl.load(tle.gpu.local_ptr(counts)))


def test_histogram(machine):
    x, y = np.random.default_rng(4).integers(0, 256, 3000).astype(np.int32), np.zeros(256, np.int32)
    machine.launch(histogram, (1, ), x, y, x.size, 256, 1024)
    assert (y == np.bincount(x, minlength=256)).all()


def test_the_hardware_adds():
    ptx = compile_kernel(histogram, {"x": "*i32", "y": "*i32", "n": "i32"}, dict(BINS=256, BLOCK=1024), "sm_90a").stages["ptx"]
    assert "red.shared" in ptx and "red.global" not in ptx and "atom.global" not in ptx


@pytest.mark.parametrize("target", ["sm_80", "sm_100a", "gfx942", "gfx950"])
def test_other_targets(target):
    signature = {"x": "*i32", "y": "*i32", "n": "i32"}
    assert compile_kernel(histogram, signature, dict(BINS=256, BLOCK=1024), target).stages


def test_compare_and_swap_is_not_for_amd():
    signature = {name: "*i32" for name in ("x", "picks", "values", "y", "old")} | {"mask": "*i8"}
    with pytest.raises(Exception) as caught:
        compile_kernel(apply, signature, dict(N=64, T=32, KIND="cas", MMA=True), "gfx942")
    assert isinstance(caught.value.__cause__, TargetError) and "not available on gfx942" in str(caught.value)
