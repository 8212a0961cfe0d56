"""Logits that are bounded softly, cap tanh(x / cap), as Gemma 2 has them, and their slope.

Input: logits, fp32. Output: numbers between -cap and cap. For example:

    x = capped(x, cap)                  None leaves them as they are
    dx = times_slope(dy, x, cap)        x being capped: dy (1 - (x / cap)^2)

tanh(u) = 1 - 2 / (e^2u + 1), in the order of 1e-7 right for every u: one power and one division, where a library's tanh has two
branches. The slope at a logit far beyond the cap is 0.
"""

import triton.language as tl

import mimw

TWICE_LOG2E = tl.constexpr(2.8853900817779268)


@mimw.jit
def capped(x, cap):
    """cap tanh(x / cap), or x where cap is None."""
    if cap is None:
        return x
    return cap - 2 * cap / (tl.exp2(x * (TWICE_LOG2E / cap)) + 1)


@mimw.jit
def times_slope(dx, x, cap):
    """dx times the derivative of `capped` where that is x; dx itself where cap is None."""
    if cap is None:
        return dx
    return dx * (1 - (x / cap) * (x / cap))
