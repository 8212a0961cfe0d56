"""Gates and betas made, where chunks are prepared, of the numbers that a model's projections give.

Input: raw gates and betas, A_log, dt_bias, a lower bound. Output: logarithms of gates, at most 0, and betas, in fp32. For example:

    raw = Raw(A_log, dt_bias, bound=-5.0)           how a launch makes gates, -5 sigmoid(e^A_log (g + dt_bias))
    raw = Raw(A_log, dt_bias)                       -e^A_log softplus(g + dt_bias)
    raw = Raw(gates=False, betas=2.0)               gates are logarithms, and betas 2 sigmoid(beta)

Both functions of g fall, so the largest gate of a row is that of its smallest sum.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import triton.language as tl

import mimw
import mimw.tle as tle

LOG2_E = tl.constexpr(1.4426950408889634)
# log(1 + t) / t for t from 0 to 1, to 4e-7 of itself: a minimax polynomial (a Lawson iteration), the last coefficient first
LOG_1P = tl.constexpr((-0.0085390965, 0.044089239, -0.10768117, 0.17745204, -0.2449545, 0.33275479, -0.49997404, 0.99999982))


class Raw(NamedTuple):
    """The makings of gates and betas: A_log (HV), None for rates of 1; dt_bias, (HV) or by key (HV, K), None for 0; the lower bound
    of gates, below 0, None for softplus; whether gates are made at all; what sigmoids of betas are multiplied by, 0 for none."""

    A_log: Any = None
    dt_bias: Any = None
    bound: float | None = None
    gates: bool = True
    betas: float = 0.0

    @property
    def making(self) -> Making:
        """The constants of a launch."""
        kind = "given" if not self.gates else "softplus" if self.bound is None else "bounded"
        return Making(kind, float(self.betas))


@tle.struct
class Making:
    """Constants: how gates are made, "given" for not at all, and what sigmoids of betas are multiplied by, 0 for none."""

    GATES: tl.constexpr
    BETAS: tl.constexpr


@tle.struct
class Maker:
    """Of one head: e^A_log, the pointer of its biases or None, the lower bound; and the constants."""

    rate: Any
    bias: Any
    bound: Any
    MAKING: tl.constexpr


@mimw.jit
def maker_of(A_log, dt_bias, bound, head, BIASES: tl.constexpr, MAKING: tl.constexpr):
    """The maker of a head with so many biases; None where gates are given."""
    if MAKING.GATES == "given":
        return None
    else:
        rate, bias = 1.0, None
        if A_log is not None:
            rate = tl.exp2(tl.load(A_log + head).to(tl.float32) * LOG2_E)
        if dt_bias is not None:
            bias = dt_bias + head * BIASES
        return Maker(rate, bias, bound, MAKING)


@mimw.jit
def softplus(x):
    """log(1 + e^x), also of a large x; a logarithm of 1 + e^x itself has no digits for a small one."""
    t = tl.exp2(tl.abs(x) * -LOG2_E)
    ratio = t * LOG_1P[0] + LOG_1P[1]
    for number in tl.static_range(2, len(LOG_1P)):
        ratio = ratio * t + LOG_1P[number]
    return tl.maximum(x, 0.0) + t * ratio


@mimw.jit
def gates_of(x, bias, maker):
    """Logarithms of gates, of raw ones; `bias` is what is added to them, or None."""
    MAKING: tl.constexpr = maker.MAKING
    if MAKING.GATES == "bounded":
        slope = maker.rate * -LOG2_E
        x = x * slope if bias is None else x * slope + bias * slope
        return maker.bound / (1.0 + tl.exp2(x))
    else:
        x = x if bias is None else x + bias
        return -maker.rate * softplus(x)


@mimw.jit
def betas_of(numbers, there, MAKING: tl.constexpr):
    """Betas, of raw ones if they are to be made; 0 where there is no row."""
    if MAKING.BETAS == 0.0:
        return numbers
    else:
        return tl.where(there, MAKING.BETAS / (1.0 + tl.exp2(numbers * -LOG2_E)), 0.0)
