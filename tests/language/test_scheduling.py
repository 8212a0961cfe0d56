"""Hints of scheduling as they are recorded: on which chips, for which arguments."""

import pytest
import triton.language as tl

import mimw.tlx as tlx

from .harness import Kernel


def test_assume_uniform_is_free_on_nvidia(kernel):
    base = kernel.tensor("p", tl.pointer_type(tl.float32))
    assert kernel(tlx.assume_uniform, base) is base
    with pytest.raises(AssertionError, match="at least 16 bits"):
        kernel(tlx.assume_uniform, kernel.tensor("b", tl.int8))


@pytest.mark.parametrize("dtype", [tl.int16, tl.int32, tl.int64, tl.float16, tl.float64, tl.pointer_type(tl.bfloat16)])
def test_assume_uniform_is_an_op_on_amd(dtype):
    amd = Kernel("gfx950")
    found = amd(tlx.assume_uniform, amd.tensor("n", dtype))
    assert found.type == dtype and amd.text()[0].split(" = ")[1].startswith("uniform %0")
    with pytest.raises(AssertionError, match="at least 16 bits"):
        amd(tlx.assume_uniform, amd.tensor("b", tl.int1))
    with pytest.raises(AssertionError, match="scalar pointer or a scalar"):
        amd(tlx.assume_uniform, amd.tensor("t", tl.int32, 64))


def test_scheduling_barrier(kernel):
    with pytest.raises(NotImplementedError, match="only available on AMD"):
        kernel(tlx.amd_sched_barrier)
    amd = Kernel("gfx950")
    for mask in (0x1000, -1, 1.0):
        with pytest.raises(ValueError, match="0 to 0xFFF"):
            amd(tlx.amd_sched_barrier, mask)
    amd(tlx.amd_sched_barrier, 0x108)
    assert amd.text() == ["sched_barrier mask=264"]


@pytest.mark.parametrize("chip", ["sm90", "gfx950"])
def test_a_range_of_its_own(chip):
    kernel = Kernel(chip)
    found = kernel(tlx.rematerialized_range, 32, 64, "store", placement=1)
    assert found.shape == [32] and found.dtype == tl.int32
    assert "distinct_range i32[32], start=32, end=64, identity='store, 1'" in kernel.text()[-1]
    for identity in (None, 1.0, ("x", )):
        with pytest.raises(ValueError, match="identity must be a constexpr int or string"):
            kernel(tlx.rematerialized_range, 0, 32, identity)
    with pytest.raises(ValueError, match="power of 2"):
        kernel(tlx.rematerialized_range, 0, 33, 0)
