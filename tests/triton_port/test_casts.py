"""Casts between integers and floats, `%` of floats, functions of subnormal numbers: what the instructions do that LLVM chooses, one
rounding, no clamp that is not there, zeros where they flush."""

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


def test_a_double_is_rounded_to_bf16_once(machine):
    """By way of fp32 the first two are ties, which go down."""
    values = [1 + 2.0**-8 + 2.0**-40, -1 - 2.0**-8 - 2.0**-40, 1 + 2.0**-8, 1 + 2.0**-8 - 2.0**-40, 1e300, -np.inf, 0.0]
    assert casts(machine, values, np.float64, BF16) == [1 + 2.0**-7, -1 - 2.0**-7, 1, 1, np.inf, -np.inf, 0]
    assert np.isnan(casts(machine, [np.nan], np.float64, BF16)[0])


def test_eight_bits_are_the_low_half_of_sixteen(machine):
    values = [1.9, -1.9, 127.5, 300.0, -300.0, 1e9, -1e9, np.nan, np.inf]
    assert casts(machine, values, np.float32, np.int8) == [1, -1, 127, 44, -44, -1, 0, 0, -1]
    assert casts(machine, values, np.float32, np.uint8) == [1, 0, 127, 44, 0, 255, 0, 0, 255]
    assert casts(machine, values, np.float32, np.int16) == [1, -1, 127, 300, -300, 32767, -32768, 0, 32767]


@pytest.mark.parametrize("signature, instruction", [(("*i32", "*bf16"), "cvt.rn.bf16.s32"), (("*fp32", "*i8"), "cvt.rzi.s16.f32"),
                                                    (("*fp64", "*bf16"), "cvt.rn.bf16.f64"),
                                                    (("*fp32", "*u8"), "cvt.rzi.u16.f32")])
def test_the_instructions_that_these_numbers_are_from(signature, instruction):
    assert instruction in to_assembly(cast, dict(zip("xy", signature)), {"COUNT": 128}).stage("ptx")


@mimw.jit
def rest(x, y, z, COUNT: tl.constexpr):
    at = tl.arange(0, COUNT)
    tl.store(z + at, tl.load(x + at) % tl.load(y + at))


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64])
def test_the_rest_of_a_division_is_of_the_rounded_quotient(machine, dtype):
    """0.9 / 0.1 of fp32 is 9, of which 0.9 has 0.00000004 less than its numbers say."""
    x = np.resize(np.array([0.9, 7.5, -7.5, 7.5, 1, np.inf, 3, np.nan, 6], dtype), 32)
    y = np.resize(np.array([0.1, 2, 2, -2, np.inf, 3, 0, 1, 3], dtype), 32)
    z = np.zeros(32, dtype)
    machine.launch(rest, (1, ), x, y, z, 32)
    wide = np.float32 if dtype is np.float16 else dtype
    left = np.longdouble(wide(x[0])) - np.trunc(wide(x[0]) / wide(y[0])) * np.longdouble(wide(y[0]))
    np.testing.assert_array_equal(z[:9], np.array([left, 1.5, -1.5, 1.5, 1, np.nan, np.nan, np.nan, 0], dtype))
    if dtype is np.float32:
        assert -1e-7 < z[0] < 0


def test_there_is_no_instruction_for_the_rest():
    ptx = to_assembly(rest, dict.fromkeys("xyz", "*fp32"), {"COUNT": 128}).stage("ptx")
    assert all(one in ptx for one in ("div.rn.f32", "cvt.rzi.f32.f32", "fma.rn.f32", "testp.infinite.f32"))


@mimw.jit
def functions(x, y, COUNT: tl.constexpr):
    at = tl.arange(0, COUNT)
    v = tl.load(x + at)
    tl.store(y + at, tl.floor(v))
    tl.store(y + COUNT + at, tl.ceil(v))
    tl.store(y + 2 * COUNT + at, tl.sqrt(v))
    tl.store(y + 3 * COUNT + at, tl.rsqrt(v))
    tl.store(y + 4 * COUNT + at, tl.exp2(v - 127.5))
    tl.store(y + 5 * COUNT + at, tl.sqrt_rn(v))


def test_subnormal_numbers_are_flushed_where_the_instruction_says_so(machine):
    x, y = np.resize(np.array([1e-40, -1e-40, 0.25], np.float32), 32), np.zeros((6, 32), np.float32)
    machine.launch(functions, (1, ), x, y, 32)
    assert y[0, :3].tolist() == [0, 0, 0] and y[1, :3].tolist() == [0, 0, 1] and np.signbit(y[0, 1])
    assert y[2, :3].tolist() == [0, 0, 0.5] and y[3, :3].tolist() == [np.inf, -np.inf, 2] and not y[4].any()
    assert 0.9e-20 < y[5, 0] < 1.1e-20 and np.isnan(y[5, 1])
    ptx = to_assembly(functions, {"x": "*fp32", "y": "*fp32"}, {"COUNT": 128}).stage("ptx")
    assert all(f"{one}.f32" in ptx for one in ("cvt.rmi.ftz.f32", "cvt.rpi.ftz.f32", "sqrt.approx.ftz", "rsqrt.approx.ftz",
                                              "ex2.approx.ftz", "sqrt.rn"))


def test_infinities_and_nan_of_e5m2_are_numbers_in_bf16(machine):
    codes = np.array([0x7C, 0xFC, 0x7D, 0x7E, 0x7F, 0x7B, 0x3C, 0x01], np.uint8).view(ml_dtypes.float8_e5m2)
    x, y = np.resize(codes, 32), np.zeros(32, BF16)
    machine.launch(cast, (1, ), x, y, 32)
    assert y[:8].astype(float).tolist() == [65536, -65536, 81920, 98304, 114688, 57344, 1, 2.0**-16]
