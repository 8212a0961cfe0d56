"""The accumulator layout of wgmma for shapes, elements and warps."""

import pytest

from mimw.compiler.constraints.wgmma import accumulator_layout, operand_k_width
from mimw.errors import LayoutConflict
from mimw.ir import Scalar, Site, Tensor
from mimw.ir.layouts import Mma

SITE = Site("g.py", 41)
FP32 = Scalar("fp32")


@pytest.mark.parametrize("shape, element, num_warps, expected", [
    ((64, 256), "bf16", 4, Mma((4, 1), (16, 256, 16))),
    ((64, 512), "bf16", 4, Mma((4, 1), (16, 256, 16))),
    ((64, 96), "fp16", 4, Mma((4, 1), (16, 96, 16))),
    ((128, 128), "bf16", 8, Mma((8, 1), (16, 128, 16))),
    ((128, 128), "bf16", 4, Mma((4, 1), (16, 128, 16))),
    ((64, 128), "bf16", 8, Mma((4, 2), (16, 64, 16))),
    ((128, 256), "bf16", 16, Mma((8, 2), (16, 128, 16))),
    ((64, 64), "fp8e4nv", 4, Mma((4, 1), (16, 64, 32))),
    ((64, 64), "fp32", 4, Mma((4, 1), (16, 64, 8))),
    ((64, 8), "bf16", 4, Mma((4, 1), (16, 8, 16))),
    ((64, 40), "bf16", 4, Mma((4, 1), (16, 40, 16))),
    ((64, 40), "i8", 4, Mma((4, 1), (16, 8, 32))),
    ((64, 256), "i8", 4, Mma((4, 1), (16, 128, 32))),
])
def test_accumulator_layout(shape, element, num_warps, expected):
    assert accumulator_layout(Tensor(FP32, shape), Scalar(element), 64, num_warps, SITE) == expected


@pytest.mark.parametrize("shape, num_warps, message", [
    ((64, 64), 2, "async_dot runs on whole warpgroups of 4 warps; this task has 2 warps = 0 * 4 + 2."),
    ((64, 64), 6, "async_dot runs on whole warpgroups of 4 warps; this task has 6 warps = 1 * 4 + 2."),
    ((32, 64), 4, "async_dot makes 64 rows at a time; the accumulator fp32[32, 64] has M = 32."),
    ((64, 4), 4, ("no wgmma fits: N = 4 over 1 warpgroup side by side gives 4 columns each, and an instruction takes a "
      "multiple of 8.")),
    ((64, 8), 8, ("no wgmma fits: N = 8 over 2 warpgroups side by side gives 4 columns each, and an instruction takes "
      "a multiple of 8.")),
])
def test_shapes_and_warps_that_no_instruction_fits(shape, num_warps, message):
    with pytest.raises(LayoutConflict) as caught:
        accumulator_layout(Tensor(FP32, shape), Scalar("bf16"), 64, num_warps, SITE)
    assert caught.value.message == message
    assert caught.value.sites == (SITE, )


@pytest.mark.parametrize("element, expected", [("bf16", 2), ("fp8e5", 4), ("fp32", 1)])
def test_a_register_operand_holds_32_bits_of_k(element, expected):
    assert operand_k_width(Scalar(element)) == expected


def test_k_comes_in_steps_of_256_bits():
    with pytest.raises(LayoutConflict) as caught:
        accumulator_layout(Tensor(FP32, (64, 64)), Scalar("fp8e5"), 16, 4, SITE)
    assert caught.value.message == "async_dot takes 256 bits of K at a time, 32 elements of fp8e5; K = 16."
