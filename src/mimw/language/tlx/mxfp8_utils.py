"""Tiles as microscaled fp8: elements of 8 bits, and a power of two for each block of them (OCP Microscaling Formats, "MXFP8").

Input: the arguments of a kernel's call. Output: values of the kernel; the ops are those of `tl`. For example:

    data, scales = _to_mxfp8_block(x, 32, tl.float8e4nv)                x of (128, 64): fp8 of (128, 64), u8 of (128, 2)
    scales, data = _compute_scale_and_quantize(x, 32, tl.float8e4nv)    the same, the other way round

A scale is stored as its exponent plus 127 (e8m0). Of a block it is the smallest power of two that makes its largest
magnitude fit into the fp8 type: the exponent of amax / 448 (or 57344) rounded up. As 448 and 57344 are 1.75 times a power
of two, that is a comparison of mantissas and no division: exact, and the same on every chip.
"""

import triton
import triton.language as tl

__all__ = [
    "_amax_to_e8m0_and_quantize", "_compute_scale_and_quantize", "_cvt_e4m3x4_f32", "_cvt_e5m2x4_f32", "_fused_amax_to_e8m0",
    "_to_mxfp8_32x32_block", "_to_mxfp8_block", "_to_mxfp8_block_with_block_amax",
]


@triton.jit
def _to_mxfp8_block(x, VEC_SIZE: tl.constexpr, dtype: tl.constexpr):
    """fp32 (rows, cols) as (fp8 data, u8 scales (rows, cols / VEC_SIZE)), a scale for each `VEC_SIZE` columns of a row.

    A block of zeros has the smallest scale, 2^-127.
    example:   data, scales = tlx._to_mxfp8_block(x, 32, tl.float8e4nv)
    """
    blocks = x.reshape([x.shape[0], x.shape[1] // VEC_SIZE, VEC_SIZE])
    return _to_mxfp8_block_with_block_amax(x, tl.max(tl.abs(blocks), 2), VEC_SIZE, dtype)


@triton.jit
def _to_mxfp8_block_with_block_amax(x, block_amax, VEC_SIZE: tl.constexpr, dtype: tl.constexpr):
    """The same as `_to_mxfp8_block`, with given largest magnitudes (rows, cols / VEC_SIZE)."""
    tl.static_assert(x.dtype == tl.float32, "mxfp8: the tile must be of fp32")
    tl.static_assert(x.shape[1] % VEC_SIZE == 0, "mxfp8: VEC_SIZE must divide the columns of the tile")
    scales = _e8m0_that_fits(block_amax, dtype)
    blocks = x.reshape([x.shape[0], x.shape[1] // VEC_SIZE, VEC_SIZE])
    data = (blocks * _power_of_two(254 - scales)[:, :, None]).to(dtype)
    return data.reshape(x.shape), scales.to(tl.uint8)


@triton.jit
def _to_mxfp8_32x32_block(x, VEC_SIZE: tl.constexpr, dtype: tl.constexpr):
    """The same as `_to_mxfp8_block`, with one scale for `VEC_SIZE` rows and columns, repeated for each of the rows."""
    tl.static_assert(x.shape[0] % VEC_SIZE == 0, "mxfp8: VEC_SIZE must divide the rows of the tile")
    ROWS: tl.constexpr = x.shape[0] // VEC_SIZE
    COLS: tl.constexpr = x.shape[1] // VEC_SIZE
    amax = tl.max(tl.max(tl.abs(x.reshape([ROWS, VEC_SIZE, COLS, VEC_SIZE])), 3), 1)
    each_row = tl.broadcast_to(amax[:, None, :], [ROWS, VEC_SIZE, COLS]).reshape([x.shape[0], COLS])
    return _to_mxfp8_block_with_block_amax(x, each_row, VEC_SIZE, dtype)


@triton.jit
def _compute_scale_and_quantize(x, VEC_SIZE: tl.constexpr, dtype: tl.constexpr):
    """`_to_mxfp8_block` the other way round: (u8 scales (rows, cols / VEC_SIZE), fp8 data (rows, cols)).

    example:   scales, data = mxfp8_utils._compute_scale_and_quantize(x, 32, tl.float8e5)
    """
    data, scales = _to_mxfp8_block(x, VEC_SIZE, dtype)
    return scales, data


@triton.jit
def _amax_to_e8m0_and_quantize(x, block_amax, VEC_SIZE: tl.constexpr, dtype: tl.constexpr):
    """`_to_mxfp8_block_with_block_amax` the other way round: (u8 scales, fp8 data), of largest magnitudes as given."""
    data, scales = _to_mxfp8_block_with_block_amax(x, block_amax, VEC_SIZE, dtype)
    return scales, data


@triton.jit
def _fused_amax_to_e8m0(amax, max_norm_rcp):
    """A scale and its inverse: (exponent plus 127 of `amax * max_norm_rcp`, rounded up, as u32; 2^(127 - that) as fp32).

    args:      amax          fp32, largest magnitudes, not negative
               max_norm_rcp  1 / 448 for e4m3, 1 / 57344 for e5m2
    returns:   the exponent is 0 (2^-127) for all that is not larger, at most 254, and 255 for NaN; the inverse has the bits
               (254 - exponent) << 23, so that of 254 is 0
    example:   exponent, inverse = mxfp8_utils._fused_amax_to_e8m0(amax, 1.0 / 448)
    """
    tl.static_assert(amax.dtype == tl.float32, "_fused_amax_to_e8m0: amax must be of fp32")
    bits = (amax * max_norm_rcp).to(tl.int32, bitcast=True)
    exponent = tl.minimum(tl.where(bits <= 0x400000, 0, (bits + 0x7FFFFF) >> 23), 254)
    exponent = tl.where(bits > 0x7F800000, 255, exponent)
    return exponent.to(tl.uint32), ((254 - exponent) << 23).to(tl.float32, bitcast=True)


@triton.jit
def _cvt_e4m3x4_f32(a):
    """fp32 as `tl.float8e4nv`: to the nearest, ties to even; what is larger than 448 becomes 448, infinities too.

    example:   data = mxfp8_utils._cvt_e4m3x4_f32(x * inverse[:, None])
    """
    tl.static_assert(a.dtype == tl.float32, "_cvt_e4m3x4_f32 takes fp32")
    return a.to(tl.float8e4nv)


@triton.jit
def _cvt_e5m2x4_f32(a):
    """fp32 as `tl.float8e5`: as `_cvt_e4m3x4_f32`, with 57344 as the largest."""
    tl.static_assert(a.dtype == tl.float32, "_cvt_e5m2x4_f32 takes fp32")
    return a.to(tl.float8e5)


@triton.jit
def _e8m0_that_fits(amax, dtype: tl.constexpr):
    """The exponent of the scale plus 127, as i32: that of `amax`, less that of the largest fp8, one more above 1.75; 254 for
    infinity."""
    tl.static_assert(dtype == tl.float8e4nv or dtype == tl.float8e5, "mxfp8: dtype must be tl.float8e4nv or tl.float8e5")
    LARGEST: tl.constexpr = 8 if dtype == tl.float8e4nv else 15     # 448 = 1.75 * 2^8, 57344 = 1.75 * 2^15
    bits = amax.to(tl.int32, bitcast=True)
    fits = tl.maximum(((bits + 0x1FFFFF) >> 23) - LARGEST, 0)
    return tl.where(bits == 0x7F800000, 254, fits)


@triton.jit
def _power_of_two(e8m0):
    """2^(e8m0 - 127): the smallest one is below the normal numbers."""
    return tl.where(e8m0 == 0, 0x400000, e8m0 << 23).to(tl.float32, bitcast=True)
