"""Inline assembly on the simulator: the instructions with a meaning, against numpy and ml_dtypes; the others are refused."""

import ml_dtypes
import numpy as np
import pytest
import triton.language as tl

import mimw
from mimw.errors import SimulatorMisuse

E4M3, E5M2, BF16 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.bfloat16

@mimw.jit
def one(x, y, ASM: tl.constexpr, CONSTRAINTS: tl.constexpr, PACK: tl.constexpr, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    tl.store(y + at, tl.inline_asm_elementwise(ASM, CONSTRAINTS, [tl.load(x + at)], y.dtype.element_ty, True, PACK))


@mimw.jit
def two(a, b, y, ASM: tl.constexpr, CONSTRAINTS: tl.constexpr, PACK: tl.constexpr, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    both = [tl.load(a + at), tl.load(b + at)]
    tl.store(y + at, tl.inline_asm_elementwise(ASM, CONSTRAINTS, both, y.dtype.element_ty, True, PACK))


def run(asm, constraints, x, to, pack=1):
    y = np.zeros(x.shape, to)
    mimw.simulate(one, (1, ), x, y, asm, constraints, pack, x.size, target="sm_100a")
    return y


def run_two(asm, constraints, a, b, to, pack=1):
    y = np.zeros(a.shape, to)
    mimw.simulate(two, (1, ), a, b, y, asm, constraints, pack, a.size, target="sm_100a")
    return y


def numbers(size=256, scale=1.0):
    x = (np.random.default_rng(7).standard_normal(size) * scale).astype(np.float32)
    x[:6] = [0.0, -0.0, np.nan, np.inf, -np.inf, 1e-42]
    return x


@pytest.mark.parametrize("name, dtype, largest", [("e4m3x2", E4M3, 448), ("e5m2x2", E5M2, 57344)])
def test_to_fp8(name, dtype, largest):
    """Two numbers a register of 16 bits; the first operand is the high byte."""
    x = numbers(scale=largest / 2)
    y = run(f"cvt.rn.satfinite.{name}.f32 $0, $2, $1;", "=h,r,r", x, dtype, pack=2)
    np.testing.assert_array_equal(y.astype(np.float32), np.clip(x, -largest, largest).astype(dtype).astype(np.float32))
    swapped = run(f"cvt.rn.satfinite.{name}.f32 $0, $1, $2;", "=h,r,r", x, dtype, pack=2)
    np.testing.assert_array_equal(swapped.reshape(-1, 2)[:, ::-1].astype(np.float32), y.reshape(-1, 2).astype(np.float32))


def test_four_to_fp8_in_one_register():
    """Through halves that `mov` puts together, with registers of its own and comments."""
    asm = """{  // four elements
        .reg .b16 low, high; /* halves */
        cvt.rn.satfinite.e4m3x2.f32 low, $2, $1;
        cvt.rn.satfinite.e4m3x2.f32 high, $4, $3;
        mov.b32 $0, {low, high};
    }"""
    x = numbers(scale=100)
    assert (run(asm, "=r,r,r,r,r", x, E4M3, pack=4).view(np.uint8) == run(
        "cvt.rn.satfinite.e4m3x2.f32 $0, $2, $1;", "=h,r,r", x, E4M3, pack=2).view(np.uint8)).all()


def test_from_fp8():
    x = np.arange(256, dtype=np.uint8)
    for name, dtype in (("e4m3x2", E4M3), ("e5m2x2", E5M2)):
        y = run(f"cvt.rn.f16x2.{name} $0, $1;", "=r,h", x.view(dtype), np.float16, pack=2)
        np.testing.assert_array_equal(y.astype(np.float32), x.view(dtype).astype(np.float32))


@pytest.mark.parametrize("how", ["rp", "rz"])
def test_scales(how):
    """e8m0: the exponent of a power of two, up or down."""
    x = np.abs(numbers(scale=1e10))
    x[6:12] = [1.0, 1.0000001, 2.0**-127, 2.0**-126, 3.4e38, 0.75]
    y = run(f"cvt.{how}.satfinite.ue8m0x2.f32 $0, $2, $1;", "=h,r,r", x, np.uint8, pack=2)
    with np.errstate(divide="ignore", invalid="ignore"):
        exponent = (np.ceil if how == "rp" else np.floor)(np.log2(x.astype(np.float64)))
    wanted = np.where(np.isnan(x), 255, np.clip(np.nan_to_num(exponent, posinf=200, neginf=-200) + 127, 0, 254))
    assert y.tolist() == wanted.astype(int).tolist()
    back = run("cvt.rn.bf16x2.ue8m0x2 $0, $1;", "=r,h", y, BF16, pack=2)
    np.testing.assert_array_equal(back.astype(np.float64), y.view(ml_dtypes.float8_e8m0fnu).astype(np.float64))


def test_fp4():
    """e2m1, a byte for two: as ml_dtypes rounds it."""
    x = np.concatenate([numbers(128, 3.0), np.array([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, -5.0] * 16, np.float32)])
    x[np.isnan(x)] = 0
    asm = "{ .reg .b8 made; cvt.rn.satfinite.e2m1x2.f32 made, $2, $1; mov.b16 $0, {made, 0}; }"
    y = run(asm, "=h,r,r", x, np.uint8, pack=2).reshape(-1, 2)[:, 0]
    wanted = np.clip(x, -6, 6).astype(ml_dtypes.float4_e2m1fn).view(np.uint8).reshape(-1, 2)
    assert (y == (wanted[:, 0] & 15 | wanted[:, 1] << 4)).all()


@pytest.mark.parametrize("asm, function", [
    ("tanh.approx.f32 $0, $1;", np.tanh), ("ex2.approx.ftz.f32 $0, $1;", np.exp2), ("abs.f32 $0, $1;", np.abs),
    ("neg.f32 $0, $1;", np.negative), ("add.rn.f32 $0, $1, 0f3F800000;", lambda x: x + np.float32(1)),
    ("mul.f32 $0, $1, 2.0;", lambda x: x * 2), ("max.f32 $0, $1, 0f00000000;", lambda x: np.fmax(x, 0)),
    ("mov.f32 $0, $1; nanosleep.u32 100;", lambda x: x),
])
def test_numbers(asm, function):
    x = numbers()
    y = run(asm, "=f,f", x, np.float32)
    flushed = np.where(np.abs(x) < np.finfo(np.float32).tiny, np.copysign(np.float32(0), x), x) if "ftz" in asm else x
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(y, function(flushed).astype(np.float32))


def test_bytes_by_number():
    """prmt: bytes 4 to 7 are the second register's; from 8 on the sign of a byte, eight times."""
    x = np.random.default_rng(3).integers(0, 1 << 32, 64, np.uint32)
    low = x.view(np.uint8).reshape(-1, 4)
    both = np.concatenate([low, np.tile(np.array([0xfe, 0, 0x80, 1], np.uint8), (64, 1))], 1)
    for chosen in ("3120", "7461", "0ce8"):
        places = [int(digit, 16) for digit in reversed(chosen)]
        wanted = np.stack([both[:, at] if at < 8 else (both[:, at - 8] >> 7) * np.uint8(255) for at in places], 1)
        y = run(f"prmt.b32 $0, $1, 0x018000fe, 0x{chosen};", "=r,r", x, np.uint32)
        assert (y.view(np.uint8).reshape(-1, 4) == wanted).all()


@pytest.mark.parametrize("name, function", [("add", np.add), ("sub", np.subtract), ("mul", np.multiply)])
def test_pairs(name, function):
    a, b = numbers(), numbers()[::-1].copy()
    asm = f"""{{ .reg .b64 ra, rb, rd; mov.b64 ra, {{$2, $3}}; mov.b64 rb, {{$4, $5}};
                 {name}.f32x2 rd, ra, rb; mov.b64 {{$0, $1}}, rd; }}"""
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(run_two(asm, "=r,=r,r,r,r,r", a, b, np.float32, pack=2), function(a, b))


def test_fma_rounds_once():
    """By exact fractions: the product of two fp32 and a sum, rounded to nearest even."""
    from fractions import Fraction
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal(256).astype(np.float32) for _ in range(2))
    a[0], b[0] = np.float32(1 + 2**-12), np.float32(1 + 2**-12)
    y = run_two("fma.rn.f32 $0, $1, $2, $1;", "=f,f,f", a, b, np.float32)
    for one_a, one_b, made in zip(a, b, y):
        exact = Fraction(float(one_a)) * Fraction(float(one_b)) + Fraction(float(one_a))
        near = [np.nextafter(made, np.float32(-np.inf)), made, np.nextafter(made, np.float32(np.inf))]
        assert min(near, key=lambda one: abs(Fraction(float(one)) - exact)) == made


@pytest.mark.parametrize("asm, function", [
    ("and.b32 $0, $1, 0xFF;", lambda x: x & 0xFF), ("xor.b32 $0, $1, $1;", lambda x: x ^ x), ("not.b32 $0, $1;", np.invert),
    ("shl.b32 $0, $1, 5;", lambda x: x << np.uint32(5)), ("shr.u32 $0, $1, 7;", lambda x: x >> np.uint32(7)),
    ("shr.s32 $0, $1, 7;", lambda x: (x.view(np.int32) >> 7).view(np.uint32)),
    ("shr.u32 $0, $1, 40;", lambda x: x & 0), ("add.s32 $0, $1, -3;", lambda x: x - np.uint32(3)),
    ("mul.lo.u32 $0, $1, 3;", lambda x: x * np.uint32(3)), ("cvt.u32.u8 $0, $1;", lambda x: x & 0xFF),
    ("{ .reg .f32 f; cvt.rn.f32.u32 f, $1; cvt.rzi.u32.f32 $0, f; }",
     lambda x: np.minimum(x.astype(np.float32).astype(np.float64), 2**32 - 1).astype(np.uint32)),
])
def test_integers(asm, function):
    x = np.random.default_rng(2).integers(0, 1 << 32, 256, dtype=np.uint32)
    np.testing.assert_array_equal(run(asm, "=r,r", x, np.uint32), function(x))


@pytest.mark.parametrize("name, reduce", [("max", np.fmax), ("max.abs", np.fmax), ("min.NaN", np.minimum)])
def test_redux(name, reduce):
    x = numbers()
    y = run(f"redux.sync.{name}.f32 $0, $1, 0xffffffff;", "=f,f", x, np.float32).reshape(-1, 32)
    groups = np.abs(x.reshape(-1, 32)) if "abs" in name else x.reshape(-1, 32)
    np.testing.assert_array_equal(y, np.broadcast_to(reduce.reduce(groups, 1, keepdims=True), y.shape))


@mimw.jit
def several(x, y, z):
    at = tl.arange(0, 64)
    low, high = tl.inline_asm_elementwise("mul.f32 $0, $2, 2.0; add.f32 $1, $2, $3;", "=f,=f,f,f", [tl.load(x + at), 1.0],
                                          dtype=(tl.float32, tl.float32), is_pure=True, pack=1)
    tl.store(y + at, low)
    tl.store(z + at, high)
    tl.store(y + 64, tl.inline_asm_elementwise("neg.f32 $0, $1;", "=f,f", [tl.load(x)], dtype=tl.float32, is_pure=True, pack=1))


def test_several_results_and_a_number():
    x, y, z = np.arange(1, 65, dtype=np.float32), np.zeros(65, np.float32), np.zeros(64, np.float32)
    mimw.simulate(several, (1, ), x, y, z)
    assert (y[:64] == 2 * x).all() and (z == x + 1).all() and y[64] == -1


@pytest.mark.parametrize("pack, asm, constraints", [(1, "nanosleep.u32 20; mov.b32 $0, 7;", "=r,r"),
                                                    (2, "mov.b32 $1, $2; mov.b32 $0, 7;", "=r,=r,r,r")])
def test_a_number_is_the_same_in_each_group(pack, asm, constraints):
    x = np.arange(64, dtype=np.int32)
    wanted = np.full(64, 7) if pack == 1 else np.where(x % 2, x - 1, 7)
    np.testing.assert_array_equal(run(asm, constraints, x, np.int32, pack), wanted)


@pytest.mark.parametrize("asm, complaint", [
    ("ld.global.f32 $0, [$1];", "ld.global.f32"), ("mov.u32 $0, %smid;", "%smid"), ("mov.b32 $0, other;", "'other' is read"),
    ("@p mov.b32 $0, $1;", "@p"), ("add.rz.f32 $0, $1, $1;", "add.rz.f32"), ("redux.sync.max.f32 $0, $1, 1;", "not of all"),
    ("L: bra L;", "L:"),
])
def test_what_has_no_meaning_is_refused(asm, complaint):
    with pytest.raises(SimulatorMisuse, match="inline assembly cannot be simulated") as caught:
        run(asm, "=r,r", numbers(), np.float32)
    assert complaint in str(caught.value) and "write it in tl, or keep this kernel to the GPU" in str(caught.value)


def test_tf32():
    """To the nearest of 10 bits, ties away from zero (PTX ISA, cvt.rna.tf32.f32); infinities stay, NaN is NaN."""
    x = np.array([1.0, 1 + 2**-11, -1 - 2**-11, 1 + 2**-12, 3.0 + 2**-9, np.inf, -np.inf, np.nan], np.float32)
    y = run("cvt.rna.tf32.f32 $0, $1;", "=r,r", x, np.float32)
    rounded = [1.0, 1 + 2**-10, -1 - 2**-10, 1.0, 3.0 + 2**-9, np.inf, -np.inf, np.nan]
    np.testing.assert_array_equal(y, np.array(rounded, np.float32))
