"""Tiles as microscaled fp8: data and scales equal those of numpy and ml_dtypes, bit for bit."""

import ml_dtypes
import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.tlx import mxfp8_utils
from tests.compiling import to_assembly
from tests.lowering.harness import Case

FORMATS = {"e4m3": (tl.float8e4nv, ml_dtypes.float8_e4m3fn, "fp8e4nv"), "e5m2": (tl.float8e5, ml_dtypes.float8_e5m2, "fp8e5")}


@mimw.jit
def by_rows(x, data, scales, TO: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr):
    at = tl.arange(0, ROWS)[:, None] * COLS + tl.arange(0, COLS)[None, :]
    found, exponents = tlx._to_mxfp8_block(tl.load(x + at), 32, TO)
    tl.store(data + at, found)
    tl.store(scales + tl.arange(0, ROWS)[:, None] * (COLS // 32) + tl.arange(0, COLS // 32)[None, :], exponents)


@mimw.jit
def by_given(x, data, scales, TO: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr):
    at = tl.arange(0, ROWS)[:, None] * COLS + tl.arange(0, COLS)[None, :]
    tile = tl.load(x + at)
    amax = tl.max(tl.abs(tile.reshape([ROWS, COLS // 32, 32])), 2) * 4
    found, exponents = mxfp8_utils._to_mxfp8_block_with_block_amax(tile, amax, 32, TO)
    tl.store(data + at, found)
    tl.store(scales + tl.arange(0, ROWS)[:, None] * (COLS // 32) + tl.arange(0, COLS // 32)[None, :], exponents)


@mimw.jit
def turned(x, data, scales, TO: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr):
    at = tl.arange(0, ROWS)[:, None] * COLS + tl.arange(0, COLS)[None, :]
    exponents, found = mxfp8_utils._compute_scale_and_quantize(tl.load(x + at), 32, TO)
    tl.store(data + at, found)
    tl.store(scales + tl.arange(0, ROWS)[:, None] * (COLS // 32) + tl.arange(0, COLS // 32)[None, :], exponents)


@mimw.jit
def turned_by_given(x, data, scales, TO: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr):
    at = tl.arange(0, ROWS)[:, None] * COLS + tl.arange(0, COLS)[None, :]
    tile = tl.load(x + at)
    amax = tl.max(tl.abs(tile.reshape([ROWS, COLS // 32, 32])), 2) * 4
    exponents, found = mxfp8_utils._amax_to_e8m0_and_quantize(tile, amax, 32, TO)
    tl.store(data + at, found)
    tl.store(scales + tl.arange(0, ROWS)[:, None] * (COLS // 32) + tl.arange(0, COLS // 32)[None, :], exponents)


@mimw.jit
def by_squares(x, data, scales, TO: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr):
    at = tl.arange(0, ROWS)[:, None] * COLS + tl.arange(0, COLS)[None, :]
    found, exponents = mxfp8_utils._to_mxfp8_32x32_block(tl.load(x + at), 32, TO)
    tl.store(data + at, found)
    tl.store(scales + tl.arange(0, ROWS)[:, None] * (COLS // 32) + tl.arange(0, COLS // 32)[None, :], exponents)


def amax_of(kernel, x):
    rows, cols = x.shape
    if kernel is by_squares:
        found = np.abs(x).reshape(rows // 32, 32, cols // 32, 32).max((1, 3))
        return np.repeat(found, 32, axis=0)
    return np.abs(x).reshape(rows, cols // 32, 32).max(2) * (4 if kernel in (by_given, turned_by_given) else 1)


def expected(x, amax, dtype):
    """By the definition: the smallest power of two with amax <= largest * 2^e."""
    largest = float(ml_dtypes.finfo(dtype).max)
    exponent = np.full(amax.shape, -127)
    for e in range(-127, 128):
        exponent[(amax.astype(np.float64) > largest * 2.0**(e - 1)) & (amax > 0)] = e
    scale = np.repeat(2.0**exponent, 32, axis=1)
    return (x / scale).astype(np.float32).astype(dtype), (exponent + 127).astype(np.uint8)


def inputs(rows=64, cols=128):
    random = np.random.default_rng(11)
    scales = 2.0**random.integers(-40, 40, (rows, cols // 32)).repeat(32, axis=1)
    x = (random.standard_normal((rows, cols)) * scales).astype(np.float32)
    x[0, :32], x[1, :32], x[32:, 96:] = 0, 1e-40, 0
    x[2, :32], x[3, :32] = 448 * 2.0**7, 57344 * 2.0**-3
    x[4, :32] = np.nextafter(np.float32(448), np.float32(500))
    return x


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("kernel", [by_rows, by_given, by_squares, turned, turned_by_given], ids=lambda kernel: kernel.__name__)
def test_data_and_scales(machine, kernel, format_):
    to, dtype, _ = FORMATS[format_]
    x = inputs()
    data, scales = np.zeros(x.shape, dtype), np.zeros((x.shape[0], x.shape[1] // 32), np.uint8)
    machine.launch(kernel, (1, ), x, data, scales, to, *x.shape)
    wanted_data, wanted_scales = expected(x, amax_of(kernel, x), dtype)
    np.testing.assert_array_equal(scales, wanted_scales)
    np.testing.assert_array_equal(data.view(np.uint8), wanted_data.view(np.uint8))


def test_compiled_for_blackwell():
    for kernel in (by_rows, by_squares):
        case = Case(kernel, {"x": "*fp32", "data": "*fp8e4nv", "scales": "*u8"}, {"TO": tl.float8e4nv, "ROWS": 128, "COLS": 64})
        assert "cvt.rn.satfinite.e4m3x2.f32" in case.compiled("sm_100a").stage("ptx")


@mimw.jit
def wrong(x, WIDTH: tl.constexpr, TO: tl.constexpr):
    at = tl.arange(0, 32)[:, None] * 32 + tl.arange(0, 32)[None, :]
    tlx._to_mxfp8_block(tl.load(x + at), WIDTH, TO)


@pytest.mark.parametrize("width, to, text", [(32, tl.float16, "dtype must be tl.float8e4nv or tl.float8e5")])
def test_refused(width, to, text):
    with pytest.raises(Exception, match=text):
        mimw.simulate(wrong, (1, ), np.zeros(1024, np.float32), width, to)


@mimw.jit
def converted(x, y4, y5, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(y4 + at, mxfp8_utils._cvt_e4m3x4_f32(tl.load(x + at)))
    tl.store(y5 + at, mxfp8_utils._cvt_e5m2x4_f32(tl.load(x + at)))


def test_conversions_round_to_nearest_and_saturate(machine):
    edges = [0, -0.0, 448, 449, 464, 465, 1e9, np.inf, -np.inf, 57344, 60000, 61440, -65000, 2.0**-10, 3 * 2.0**-10]
    x = np.concatenate([np.float32(edges), np.random.default_rng(3).standard_normal(113).astype(np.float32) * 20])
    y4, y5 = np.zeros(128, ml_dtypes.float8_e4m3fn), np.zeros(128, ml_dtypes.float8_e5m2)
    machine.launch(converted, (1, ), x, y4, y5, 128)
    for y in (y4, y5):
        largest = float(ml_dtypes.finfo(y.dtype).max)
        np.testing.assert_array_equal(y.view(np.uint8), np.clip(x, -largest, largest).astype(y.dtype).view(np.uint8))


@mimw.jit
def exponents_of(amax, exponents, inverses, RCP: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, N)
    found, inverse = mxfp8_utils._fused_amax_to_e8m0(tl.load(amax + at), RCP)
    tl.static_assert(found.dtype == tl.uint32)
    tl.store(exponents + at, found)
    tl.store(inverses + at, inverse)


def _rounded_up(product):
    """The smallest e with product <= 2^(e - 127), of 0 to 254; 255 for NaN."""
    if np.isnan(product):
        return 255
    return next(e for e in range(255) if e == 254 or product <= 2.0**(e - 127))


@pytest.mark.parametrize("rcp", [1 / 448, 1 / 57344, 1.0])
def test_exponents_and_their_inverses(machine, rcp):
    above = np.nextafter(np.float32(448), np.float32(500))
    special = [0, 448, 57344, above, 1, 2, 3, 1e-40, 2.0**-126, 2.0**-127, 3e38, np.inf, np.nan]
    amax = np.concatenate([special, 2.0**np.random.default_rng(5).uniform(-110, 120, 64 - len(special))]).astype(np.float32)
    exponents, inverses = np.zeros(64, np.uint32), np.zeros(64, np.float32)
    machine.launch(exponents_of, (1, ), amax, exponents, inverses, rcp, 64)
    wanted = np.array([_rounded_up(product) for product in amax * np.float32(rcp)])
    np.testing.assert_array_equal(exponents, wanted)
    np.testing.assert_array_equal(inverses.view(np.int32), ((254 - wanted) << 23).astype(np.int64).astype(np.int32))
    normal = wanted < 254
    np.testing.assert_array_equal(inverses[normal], 2.0**(127 - wanted[normal]))


def test_helpers_compiled_for_blackwell():
    case = Case(converted, {"x": "*fp32", "y4": "*fp8e4nv", "y5": "*fp8e5"}, {"N": 512})
    ptx = case.compiled("sm_100a", by=to_assembly).stage("ptx")
    assert ptx.count("cvt.rn.satfinite.e4m3x2.f32") == ptx.count("cvt.rn.satfinite.e5m2x2.f32") == 2
    turning = Case(turned, {"x": "*fp32", "data": "*fp8e5", "scales": "*u8"}, {"TO": tl.float8e5, "ROWS": 32, "COLS": 32})
    assert "cvt.rn.satfinite.e5m2x2.f32" in turning.compiled("sm_100a", by=to_assembly).stage("ptx")
    case = Case(exponents_of, {"amax": "*fp32", "exponents": "*u32", "inverses": "*fp32"}, {"RCP": 1 / 448, "N": 128})
    assert "shl.b32" in case.compiled("sm_100a", by=to_assembly).stage("ptx")


@mimw.jit
def of_halves(x, y):
    tl.store(y, mxfp8_utils._cvt_e4m3x4_f32(tl.load(x)))


def test_conversions_are_of_fp32():
    with pytest.raises(Exception, match="_cvt_e4m3x4_f32 takes fp32"):
        mimw.simulate(of_halves, (1, ), np.zeros(1, np.float16), np.zeros(1, ml_dtypes.float8_e4m3fn))
