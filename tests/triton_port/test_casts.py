"""Casts between integers and floats: what the instructions do that LLVM chooses, one rounding and no clamp that is not there."""

import ml_dtypes
import numpy as np
import pytest
import triton.language as tl

import mimw
from tests.compiling import to_assembly

BF16 = np.dtype(ml_dtypes.bfloat16)


@mimw.jit
def cast(x, y, COUNT: tl.constexpr):
    at = tl.arange(0, COUNT)
    tl.store(y + at, tl.load(x + at).to(y.dtype.element_ty))


def casts(machine, values, source, target):
    x = np.resize(np.array(values, source), 32)
    y = np.zeros(32, target)
    machine.launch(cast, (1, ), x, y, 32)
    return y[:len(values)].astype(np.float64).tolist()


@pytest.mark.parametrize("source", [np.int32, np.uint32, np.int64])
def test_an_integer_is_rounded_to_bf16_once(machine, source):
    """By way of fp32 each of these is a tie, which goes down; each is just above one."""
    values = [0x1010001, 0x4040_0001, 257, 259, 0, 0x7fff_ffff]
    assert casts(machine, values, source, BF16) == [0x1020000, 0x4080_0000, 256, 260, 0, 0x8000_0000]
    if source is not np.uint32:
        assert casts(machine, [-0x1010001, -257, -259], source, BF16) == [-0x1020000, -256, -260]
    if source is np.int64:
        assert casts(machine, [-(1 << 63), (1 << 63) - 1, (257 << 50) + 1], source, BF16) == [-2.0**63, 2.0**63, 258 * 2.0**50]


def test_eight_bits_are_the_low_half_of_sixteen(machine):
    values = [1.9, -1.9, 127.5, 300.0, -300.0, 1e9, -1e9, np.nan, np.inf]
    assert casts(machine, values, np.float32, np.int8) == [1, -1, 127, 44, -44, -1, 0, 0, -1]
    assert casts(machine, values, np.float32, np.uint8) == [1, 0, 127, 44, 0, 255, 0, 0, 255]
    assert casts(machine, values, np.float32, np.int16) == [1, -1, 127, 300, -300, 32767, -32768, 0, 32767]


@pytest.mark.parametrize("signature, instruction", [(("*i32", "*bf16"), "cvt.rn.bf16.s32"), (("*fp32", "*i8"), "cvt.rzi.s16.f32"),
                                                    (("*fp32", "*u8"), "cvt.rzi.u16.f32")])
def test_the_instructions_that_these_numbers_are_from(signature, instruction):
    assert instruction in to_assembly(cast, dict(zip("xy", signature)), {"COUNT": 128}).stage("ptx")
