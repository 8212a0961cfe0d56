"""`mimw.auto`: a kernel of which each specialisation decides at its first launch, and whose decisions are kept."""

import sys

import numpy as np
import pytest
import triton
import triton.language as tl

import mimw
from mimw.tools.orchestrate import Plan, choose, found

MODULE = sys.modules["mimw.tools.orchestrate.auto"]


def gemm(a_desc, b_desc, c_desc, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        x = a_desc.load([m, k])
        y = b_desc.load([k, n])
        acc = tl.dot(x, y, acc)
    c_desc.store([m, n], acc.to(tl.float16))


def rows(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)


META = dict(BM=128, BN=64, BK=64, num_warps=4)
GRID = (1, 1)


def arrays(k=256):
    random = np.random.default_rng(0)
    a, b = (random.standard_normal(shape).astype(np.float16) for shape in ((128, k), (k, 64)))
    c = np.full((128, 64), np.nan, np.float16)
    describe = mimw.TensorDescriptor.from_tensor
    args = describe(a, [128, 64]), describe(b, [64, 64]), describe(c, [128, 64]), k
    return args, c, a.astype(np.float32) @ b.astype(np.float32)


@pytest.fixture(autouse=True)
def _simulated(monkeypatch, tmp_path):
    monkeypatch.setenv("MIMW_SIMULATE", "1")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(choose, "plans", lambda *_: iter([Plan(stages=2)]))       # one is enough here


@pytest.fixture
def always(monkeypatch):
    """A proved plan is taken however quick it is."""
    monkeypatch.setattr(found, "QUICKER", 0.0)


@pytest.fixture
def sought(monkeypatch):
    """How often a kernel was orchestrated."""
    calls, real = [], MODULE.orchestrate

    def counting(*args, **meta):
        calls.append(meta)
        return real(*args, **meta)
    monkeypatch.setattr(MODULE, "orchestrate", counting)
    return calls


def test_a_specialisation_is_looked_at_once_also_by_another_process(always, sought):
    kernel = mimw.auto(gemm)
    for _ in range(2):
        args, c, expected = arrays()
        kernel[GRID](*args, **META)
        np.testing.assert_allclose(c, expected, rtol=1e-2, atol=1e-1)
    assert len(sought) == 1 and kernel.why(GRID, *args, **META).startswith("orchestrated: predicted")
    again = mimw.auto(gemm)         # as another process would have it: nothing but the cache on disk
    args, c, expected = arrays()
    again[GRID](*args, **META)
    np.testing.assert_allclose(c, expected, rtol=1e-2, atol=1e-1)
    assert len(sought) == 1 and again.why(GRID, *args, **META).startswith("orchestrated: predicted")
    again[GRID](*args, **META | {"num_warps": 8})
    assert len(sought) == 2


def test_arrays_that_overlap_take_the_plain_kernel(always):
    kernel = mimw.auto(gemm)
    args, c, _ = arrays()
    kernel[GRID](*args, **META)
    a, b, _, k = args
    same = mimw.TensorDescriptor.from_tensor(a.base.array[:, :64], [128, 64])
    said = kernel.why(GRID, a, b, same, k, **META)
    assert said == "plain: c_desc, which is written, overlaps a_desc, which is read ahead of stores"


def test_no_trips(always):
    kernel = mimw.auto(gemm)
    args, c, _ = arrays()
    kernel[GRID](*args, **META)
    c[...] = np.nan
    kernel[GRID](*args[:3], 0, **META)
    assert not c.any()


def scaled(a_desc, b_desc, c_desc, K, factor, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        x = a_desc.load([0, k])
        y = b_desc.load([k, 0])
        acc = tl.dot(x, y, acc)
    c_desc.store([0, 0], (acc * factor).to(tl.float16))


def test_numbers_that_are_not_to_be_specialised_are_none_of_the_kernel_s(always):
    """A 1 of the first launch would be a constant else."""
    kernel = mimw.auto(scaled, do_not_specialize=["factor"])
    for factor in (1, 3):
        args, c, expected = arrays()
        kernel[GRID](*args, factor, **META)
        np.testing.assert_allclose(c, factor * expected, rtol=1e-2, atol=3e-1)
    assert kernel.why(GRID, *args, 3, **META).startswith("orchestrated") and len(kernel.decisions) == 1


def test_what_is_not_quicker_and_what_does_not_multiply_stays_plain():
    args, _, _ = arrays()
    assert "x is asked for" in mimw.auto(gemm).why(GRID, *args, **META)
    kernel, x, y = mimw.auto(rows), np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    kernel[(2, )](x, y, 64, BLOCK=32)
    np.testing.assert_array_equal(y, 2 * x)
    assert kernel.why((2, ), x, y, 64, BLOCK=32) == "plain: nothing is to be handed over"


def test_each_configuration_of_an_autotuner_decides_for_itself(sought):
    tuned = triton.autotune([triton.Config({"BM": 128, "BN": 64, "BK": 64}, num_warps=4)], key=["K"])(mimw.auto(gemm))
    args, c, expected = arrays()
    tuned[GRID](*args)
    np.testing.assert_allclose(c, expected, rtol=1e-2, atol=1e-1)
    assert len(sought) == 1


def test_mistakes_are_the_plain_kernel_s():
    args, _, _ = arrays()
    with pytest.raises(Exception, match="BK"):
        mimw.auto(gemm)[GRID](*args, BM=128, BN=64)
