"""Stochastic rounding: on the simulator bit by bit, and the instructions that it is."""

import fractions
import re

import ml_dtypes
import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from tests.lowering.harness import Case

TYPES = {"e4m3": (tl.float8e4nv, ml_dtypes.float8_e4m3fn, "fp8e4nv"), "e5m2": (tl.float8e5, ml_dtypes.float8_e5m2, "fp8e5"),
         "f16": (tl.float16, np.float16, "fp16"), "bf16": (tl.bfloat16, ml_dtypes.bfloat16, "bf16")}
# Of each element of an instruction: the bits of the random word from the highest to the lowest, as read off sm_100a.
FP8 = (range(15, -1, -1), range(16), range(31, 15, -1), range(16, 32))
SLICES = {"e4m3": FP8, "e5m2": FP8, "bf16": (range(15, -1, -1), range(31, 15, -1)), "f16": (range(12, -1, -1), range(28, 15, -1))}


@mimw.jit
def rounds(x, r, y, ROWS: tl.constexpr, COLS: tl.constexpr, TO: tl.constexpr):
    at = tl.arange(0, ROWS)[:, None] * COLS + tl.arange(0, COLS)[None, :]
    tl.store(y + at, tlx.stoch_round(tl.load(x + at), TO, tl.load(r + at)))


@mimw.jit
def rounds_one(x, r, y, TO: tl.constexpr):
    tl.store(y, tlx.stoch_round(tl.load(x), TO, tl.load(r)))


def neighbours(value: float, dtype):
    """(below, above) in magnitude among the numbers of the type, as fractions of one."""
    grid = numbers(dtype)
    index = np.searchsorted(grid, abs(value), side="right") - 1
    return grid[index], grid[min(index + 1, len(grid) - 1)]


def numbers(dtype):
    """The numbers of a type that are not negative, in order."""
    bits = np.dtype(dtype).itemsize * 8
    with np.errstate(invalid="ignore"):
        every = np.arange(1 << (bits - 1), dtype=f"u{bits // 8}").view(dtype).astype(np.float64)
    return every[np.isfinite(every)]


def expected(value: np.float32, word: int, lane: int, kind: str):
    """Up if the random bits and the fraction of the way to the number above make a carry."""
    dtype = TYPES[kind][1]
    if np.isnan(value):
        return np.nan
    below, above = neighbours(float(value), dtype)
    slice_ = SLICES[kind][lane]
    random = sum(((word >> bit) & 1) << (len(slice_) - 1 - place) for place, bit in enumerate(slice_))
    way = fractions.Fraction(0) if above == below else ((fractions.Fraction(abs(float(value))) - fractions.Fraction(below))
                                                        / (fractions.Fraction(above) - fractions.Fraction(below)))
    up = way + fractions.Fraction(random, 1 << len(slice_)) >= 1
    return np.copysign(above if up else below, value)


def inputs(kind, shape):
    random = np.random.default_rng(3)
    dtype = TYPES[kind][1]
    grid = numbers(dtype)
    picked = grid[random.integers(0, len(grid) - 1, shape)]
    x = (picked * random.choice([1.0, 1.01, 1.06, 1.0001, 0.97], shape) * random.choice([-1, 1], shape)).astype(np.float32)
    x.flat[:8] = [0.0, -0.0, grid[-1], -grid[-1], grid[1] * 0.5, -grid[1] * 0.99, np.nan, min(grid[-1] * 1.001, 3.4e38)]
    return x, random.integers(0, 1 << 32, shape, dtype=np.uint32)


@pytest.mark.long(but=["bf16-shape1", "e4m3-shape0", "e5m2-shape2", "f16-shape2"], everywhere=True)
@pytest.mark.parametrize("shape", [(16, 32), (8, 2), (32, 1)])
@pytest.mark.parametrize("kind", TYPES)
def test_each_element_takes_its_bits(kind, shape):
    to, dtype, _ = TYPES[kind]
    x, r = inputs(kind, shape)
    y = np.zeros(shape, dtype)
    mimw.simulate(rounds, (1, ), x, r, y, *shape, to, target="sm_100a")
    each = min(4 if y.itemsize == 1 else 2, shape[1])
    wanted = [expected(value, int(r[row, column - column % each]), column % each, kind)
              for (row, column), value in np.ndenumerate(x)]
    np.testing.assert_array_equal(y.astype(np.float64).ravel(), wanted)
    assert (np.signbit(y.astype(np.float32)) == np.signbit(x)).ravel()[np.isfinite(x).ravel()].all()


@pytest.mark.parametrize("kind", TYPES)
def test_what_does_not_fit_becomes_the_largest(kind):
    to, dtype, _ = TYPES[kind]
    x = np.array([np.inf, -np.inf, 3.4e38, -3.4e38], np.float32).repeat(32).reshape(4, 32)
    y = np.zeros(x.shape, dtype)
    mimw.simulate(rounds, (1, ), x, np.full(x.shape, 0xFFFFFFFF, np.uint32), y, 4, 32, to, target="sm_100a")
    assert (y.astype(np.float64) == np.sign(x) * numbers(dtype)[-1]).all()


@pytest.mark.parametrize("kind", TYPES)
def test_a_number(kind):
    to, dtype, _ = TYPES[kind]
    for value, word in [(1.07, 0), (1.07, 0xFFFF), (-1.07, 0xFFFFFFFF), (1.5, 0xFFFFFFFF), (1.001, 0x00000FFF)]:
        y = np.zeros(1, dtype)
        mimw.simulate(rounds_one, (1, ), np.array([value], np.float32), np.array([word], np.uint32), y, to, target="sm_100a")
        assert y[0] == expected(np.float32(value), word, 0, kind)


@pytest.mark.parametrize("kind", TYPES)
def test_the_mean_is_the_value(kind):
    to, dtype, _ = TYPES[kind]
    x = np.full((256, 64), 1.03, np.float32)
    y = np.zeros(x.shape, dtype)
    r = np.random.default_rng(0).integers(0, 1 << 32, x.shape, dtype=np.uint32)
    mimw.simulate(rounds, (1, ), x, r, y, *x.shape, to, target="sm_100a")
    below, above = neighbours(1.03, dtype)
    assert set(np.unique(y.astype(np.float64))) == {below, above}
    assert abs(y.astype(np.float64).mean() - 1.03) < 0.02 * (above - below)


@pytest.mark.parametrize("kind, packed", [("e4m3", "e4m3x4"), ("e5m2", "e5m2x4"), ("f16", "f16x2"), ("bf16", "bf16x2")])
def test_one_instruction_takes_neighbours(kind, packed, sass_has):
    to, dtype, name = TYPES[kind]
    case = Case(rounds, {"x": "*fp32", "r": "*i32", "y": f"*{name}"}, {"ROWS": 64, "COLS": 64, "TO": to})
    compiled = case.compiled("sm_100a")
    found = re.findall(r"cvt\.rs\.satfinite\.(\w+)\.f32", compiled.stage("ptx"))
    assert found == [packed] * (64 * 64 // 128 // int(packed[-1]))
    sass_has(compiled, r"F2FP.*\.RS")
    scalar = Case(rounds_one, {"x": "*fp32", "r": "*i32", "y": f"*{name}"}, {"TO": to}).compiled("sm_100a")
    assert len(re.findall(rf"cvt\.rs\.satfinite\.{packed}\.f32", scalar.stage("ptx"))) == 1


@mimw.jit
def rounds_in_a_task(x, r, y, TO: tl.constexpr):
    with tlx.async_tasks():
        with tlx.async_task("default"):
            pass
        with tlx.async_task(num_warps=4):
            at = tl.arange(0, 512)
            tl.store(y + at, tlx.stoch_round(tl.load(x + at), TO, tl.load(r + at)))


def test_in_a_task(sass_has):
    case = Case(rounds_in_a_task, {"x": "*fp32", "r": "*i32", "y": "*fp8e4nv"}, {"TO": tl.float8e4nv})
    compiled = case.compiled("sm_100a")
    assert compiled.stage("ptx").count("cvt.rs.satfinite.e4m3x4.f32") == 1
    sass_has(compiled, r"F2FP.*\.RS")
    x, r = inputs("e4m3", (1, 512))
    y = np.zeros(512, ml_dtypes.float8_e4m3fn)
    mimw.simulate(rounds_in_a_task, (1, ), x.ravel(), r.ravel(), y, tl.float8e4nv, target="sm_100a")
    wanted = [expected(value, int(r[0, place - place % 4]), place % 4, "e4m3") for place, value in enumerate(x.ravel())]
    np.testing.assert_array_equal(y.astype(np.float64), wanted)


@pytest.mark.parametrize("target", ["sm_90a", "sm_120a"])
def test_other_chips(target):
    x, r = inputs("f16", (16, 32))
    with pytest.raises(Exception, match="stoch_round is only available on Blackwell chips.* not supported"):
        mimw.simulate(rounds, (1, ), x, r, np.zeros(x.shape, np.float16), 16, 32, tl.float16, target=target)


@pytest.mark.parametrize("source, to, text", [
    (np.float16, tl.float16, "only supports fp32 source, got fp16: .* supported"),
    (np.float32, tl.int8, "only supports fp8/fp16/bf16 destination, got int8; supported are")])
def test_types_that_are_not_supported(source, to, text):
    x = np.zeros((16, 32), source)
    with pytest.raises(Exception, match=text):
        mimw.simulate(rounds, (1, ), x, np.zeros((16, 32), np.int32), np.zeros(x.shape, np.int8), 16, 32, to, target="sm_100a")
