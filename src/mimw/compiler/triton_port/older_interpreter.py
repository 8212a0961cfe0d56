"""What Triton 3.9's interpreter computes as the hardware does and 3.8's does not: fused multiply-adds, bits, histograms.

Input: handles with arrays of numpy. Output: the numbers of 3.9's interpreter:

    fused(x, y, z)          x * y + z, rounded once; 3.8 rounds the product, too
    binary_op(i1, i1)       a sum of two bits is one bit; numpy's is their `or`
    create_histogram        counts what lies in a bin; 3.8's last bin has the number behind it, too

fp32 and fp64 are rounded to odd on the way, which leaves a last bit that tells whether something is missing (S. Boldo and
G. Melquiond, Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd, 2008).
"""

from __future__ import annotations

import numpy as np
import triton.language as tl
from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

_HALVES = 2.0 ** 27 + 1     # Dekker's constant, which cuts a number of fp64 into two halves


class OlderInterpreter(InterpreterBuilder):
    """3.8's interpreter with the arithmetic of 3.9's."""

    def binary_op(self, lhs, rhs, op):
        if lhs.data.dtype != np.bool_ or rhs.data.dtype != np.bool_:
            return super().binary_op(lhs, rhs, op)
        return TensorHandle((op(lhs.data.astype(np.int8), rhs.data.astype(np.int8)) & 1).astype(np.bool_), lhs.dtype.scalar)

    def create_fma(self, x, y, z):
        return TensorHandle(fused(x.data, y.data, z.data), z.dtype.scalar)

    create_approx_divf = InterpreterBuilder.create_fdiv

    def create_histogram(self, data, bins, mask):
        taken = (data.data >= 0) & (data.data < bins)
        taken = taken if mask is None else taken & mask.data
        return TensorHandle(np.bincount(data.data[taken].reshape(-1), minlength=bins).astype(np.int32), tl.int32)


def fused(x, y, z):
    """x * y + z, rounded once, of fp32 or fp64; of other types by way of fp64."""
    x, y, z = np.broadcast_arrays(x, y, z)
    with np.errstate(all="ignore"):
        if z.dtype == np.float64:
            return _fused_64(x, y, z)[()]
        product, summand = x.astype(np.float64) * y.astype(np.float64), z.astype(np.float64)
        if z.dtype != np.float32:
            return (product + summand).astype(z.dtype)[()]
        total, rest = _two_sum(product, summand)    # the product is exact
        return _to_odd(total, rest).astype(np.float32)[()]


def _fused_64(x, y, z):
    high, low = _two_product(x, y)
    top, rest = _two_sum(z, low)
    total, left = _two_sum(high, top)
    made = total + _to_odd(*_two_sum(rest, left))
    # Halves of the largest numbers overflow, and products of the smallest lose bits: there the plain sum is what is known.
    plain = x * y + z
    return np.where(np.isfinite(made) & ((np.abs(high) > 1e-250) | (high == 0)), made, plain)


def _two_sum(a, b):
    """The rounded sum, and what it lacks."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _two_product(a, b):
    """The rounded product, and what it lacks."""
    product = a * b
    (a_high, a_low), (b_high, b_low) = _halves(a), _halves(b)
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def _halves(a):
    many = _HALVES * a
    high = many - (many - a)
    return high, a - high


def _to_odd(total, rest):
    """A sum rounded to odd: of the two neighbours of an inexact one that whose last bit is 1."""
    even = (np.ascontiguousarray(total).view(np.int64) & 1) == 0
    other = np.nextafter(total, np.where(rest > 0, np.inf, -np.inf))
    return np.where((rest != 0) & np.isfinite(rest) & even, other, total)
