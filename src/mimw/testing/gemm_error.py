"""Bounds on the error of a GEMM, from its types and K: ||c - a b|| / ||a b|| for independent inputs of mean zero.

Input: the bytes of an input and of an output element, and K. Output: the most that the relative error of a right result is.

    allowed(in_bytes=1, out_bytes=2, k=32768)       0.0068

Three sources, added in squares:

* **Rounding the result** to p bits of fraction: errors uniform in +-2^-(p+1) of the power of two below the value, so at most
  2^-(p+1) / sqrt(3) of it in the mean square.
* **Rounding the inputs**: the tensor core takes fp32 as tf32 by cutting off all but 10 bits of fraction, 2^-10 / sqrt(3) of an
  input at most; a and b are both cut toward zero, so the two add up.
* **The sum in the tensor core**, of which Hopper keeps about 14 bits for 8-bit inputs (DeepSeek-V3 technical report,
  arXiv 2412.19437, section 3.3.2): in each step of 32 products every addend is cut to 13 bits of fraction below the largest one,
  soon the sum itself. One cut product is off by 2^-13 s / sqrt(3) for a sum in [s, 2s); over a significand that is uniform the
  mean of s^2 is half of the sum's square, which after j products is j times that of one. So K products together are
  off by 2^-13 sqrt(1/3 * 1/2 * (1 + .. + K)) = 2^-13 K / sqrt(12), of a sum of sqrt(K): 2^-13 sqrt(K / 12) of it. Products
  below the cut lose less than that, so it is an upper bound; `tests/testing/test_gemm_error.py` computes such sums and finds
  0.35 to 0.75 of it. The sums of 16- and 32-bit inputs keep 23 bits, which does not show.
"""

from __future__ import annotations

from math import hypot, sqrt

FRACTION_OF_RESULT = {2: 7, 4: 23}          # bits, by bytes: bf16 (fp16 has more), fp32
FRACTION_OF_INPUT = {4: 10}                 # tf32; others are taken as they are
FRACTION_OF_SUM = {1: 13, 2: 23, 4: 23}


def allowed(in_bytes: int, out_bytes: int, k: int) -> float:
    """The most that the relative error of a right result is."""
    result = 2.0 ** -(FRACTION_OF_RESULT[out_bytes] + 1) / sqrt(3)
    inputs = 2 * 2.0 ** -FRACTION_OF_INPUT[in_bytes] / sqrt(3) if in_bytes in FRACTION_OF_INPUT else 0.0
    return hypot(result, inputs, 2.0 ** -FRACTION_OF_SUM[in_bytes] * sqrt(k / 12))
