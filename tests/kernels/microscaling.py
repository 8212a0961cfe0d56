"""Operands in microscaling formats as kernels take them, and the numbers that they are.

Shapes: `operand(draw, "e2m1", rows, k)` gives codes (rows, k / 2) of fp4, or (rows, k) of fp8, scales (rows, k / 32), and numbers
(rows, k) in fp32, of every finite code and scales about 1. `small_operand` has numbers of which sums are exact in fp32.
"""

import ml_dtypes
import numpy as np

FORMATS = {"e2m1": ml_dtypes.float4_e2m1fn, "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}
BLOCK = 32      # numbers that share a scale


def operand(draw, format_, rows, k):
    """(codes, scales, numbers) of random codes."""
    codes = np.arange(16 if format_ == "e2m1" else 256, dtype=np.uint8).view(FORMATS[format_])
    return scaled(draw, format_, draw.choice(codes[np.isfinite(codes.astype(np.float32))], (rows, k)))


def small_operand(draw, format_, rows, k):
    """The same of the numbers -3, -2.5, .. 3."""
    return scaled(draw, format_, (draw.integers(-6, 7, (rows, k)).astype(np.float32) / 2).astype(FORMATS[format_]))


def scaled(draw, format_, values):
    """(codes, random scales, numbers) of values of a format; of fp4 two codes are packed in a byte, the first in its low half."""
    rows, k = values.shape
    scales = draw.integers(125, 130, (rows, k // BLOCK)).astype(np.uint8)
    numbers = values.astype(np.float32) * np.exp2(scales.astype(np.float32) - 127).repeat(BLOCK, 1)
    if format_ != "e2m1":
        return values, scales, numbers
    codes = values.view(np.uint8)
    return codes[:, ::2] & 15 | codes[:, 1::2] << 4, scales, numbers
