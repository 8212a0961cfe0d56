"""The default layouts, as plain values."""

from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mimw.compiler.constraints.defaults import default_blocked, default_shared, nvmma_shared, plain_shared
from mimw.ir.layouts import Blocked, NvmmaShared, SwizzledShared
from mimw.ir.types import I1, I64, Pointer, Scalar

BF16, FP32, FP8 = Scalar("bf16"), Scalar("fp32"), Scalar("fp8e5")
powers = st.integers(0, 9).map(lambda exponent: 2**exponent)


@given(st.lists(powers, min_size=1, max_size=4).map(tuple), st.sampled_from((1, 2, 4, 8, 16, 32)),
       st.sampled_from((32, 64)))
def test_default_blocked_uses_every_lane_and_every_warp(shape, num_warps, warp_size):
    layout = default_blocked(shape, num_warps, warp_size)
    assert prod(layout.threads_per_warp) == warp_size
    assert prod(layout.warps) == num_warps
    assert layout.order == tuple(reversed(range(len(shape))))
    assert layout.size_per_thread == (1, ) * len(shape)


@pytest.mark.parametrize("shape, threads, warps", [
    ((1024, ), (32, ), (4, )),
    ((16, ), (32, ), (4, )),
    ((64, 128), (1, 32), (1, 4)),
    ((64, 64), (1, 32), (2, 2)),
    ((64, 16), (2, 16), (4, 1)),
    ((64, 1), (32, 1), (4, 1)),
    ((1, 64), (1, 32), (2, 2)),
    ((2, 4, 8), (1, 4, 8), (4, 1, 1)),
])
def test_default_blocked_fills_the_fastest_dimension_first(shape, threads, warps):
    rank = len(shape)
    assert default_blocked(shape, 4) == Blocked((1, ) * rank, threads, warps, tuple(reversed(range(rank))))


@pytest.mark.parametrize("shape, element, swizzle", [
    ((128, 64), BF16, 128),
    ((128, 128), BF16, 128),
    ((128, 32), BF16, 64),
    ((128, 16), BF16, 32),
    ((128, 8), BF16, 0),
    ((128, 48), BF16, 32),
    ((4, 64), BF16, 0),
    ((2, 4, 64), BF16, 128),
    ((128, 64), FP8, 64),
    ((128, 32), FP32, 128),
    ((256, ), BF16, 0),
])
def test_nvmma_swizzle_is_the_widest_that_rows_fill(shape, element, swizzle):
    assert nvmma_shared(shape, element) == NvmmaShared(swizzle, element.bits, len(shape))


def test_a_transposed_nvmma_measures_its_first_dimension():
    assert nvmma_shared((32, 128), BF16, transposed=True) == NvmmaShared(64, 16, 2, transposed=True)


@pytest.mark.parametrize("shape, element, tensor_cores, expected", [
    ((64, ), BF16, True, SwizzledShared(1, 1, 1, (0, ))),
    ((64, 64), BF16, True, NvmmaShared(128, 16, 2)),
    ((64, 64), BF16, False, SwizzledShared(1, 1, 1, (1, 0))),
    ((64, 64), I64, True, SwizzledShared(1, 1, 1, (1, 0))),
    ((64, 64), I1, True, SwizzledShared(1, 1, 1, (1, 0))),
    ((64, 64), Pointer(BF16), True, SwizzledShared(1, 1, 1, (1, 0))),
    ((2, 64, 64), BF16, True, NvmmaShared(128, 16, 3)),
])
def test_default_shared(shape, element, tensor_cores, expected):
    assert default_shared(shape, element, tensor_cores) == expected


def test_plain_rows_have_their_last_dimension_fastest():
    assert plain_shared(3) == SwizzledShared(1, 1, 1, (2, 1, 0))
