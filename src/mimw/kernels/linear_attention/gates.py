"""Gates and betas made, where a kernel first reads them, of the numbers that a model's projections give.

Input: raw gates and betas, A_log, dt_bias, a lower bound. Output: logarithms of gates, at most 0, and betas, in fp32. For example:

    raw = Raw(A_log, dt_bias, True, -5.0)       how a launch makes gates, -5 sigmoid(e^A_log (g + dt_bias))
    raw = Raw(A_log, dt_bias, True)             -e^A_log softplus(g + dt_bias)
    raw = Raw(use_beta_sigmoid=True)            gates are logarithms, and betas sigmoid(beta)

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


def lines(rows: str, memory: str = "") -> tuple[str, ...]:
    """Of a contract whose g has the dimensions `rows` before its heads: what makes gates and betas, with the operator's names.
    `memory`, as " contiguous", is how both tensors lie."""
    return (f"A_log?: float (HV){memory}", f"dt_bias?: float (HV) or (HV, K){memory}",
            "not use_gate or g is not None -- with use_gate there must be a g to make gates of",
            "use_gate or A_log is None and dt_bias is None and lower_bound is None -- A_log, dt_bias and lower_bound make gates, "
            "which use_gate=True asks for",
            "lower_bound < 0 -- lower_bound must be below 0, as logarithms of gates are",
            f"dt_bias is None or len(dt_bias.shape) == len(g.shape) - {rows.count(',') + 1} -- gates of shape ({rows}, HV) take "
            "biases (HV), and by key (HV, K)",
            "not use_beta_sigmoid or beta is not None -- with use_beta_sigmoid there must be a beta",
            "use_beta_sigmoid or not allow_neg_eigval -- allow_neg_eigval doubles sigmoids, which use_beta_sigmoid=True asks for")


class GateParameters(NamedTuple):
    """The arguments of a launch for gates: pointers of A_log and dt_bias, or None, and the lower bound."""

    A_log: Any
    dt_bias: Any
    bound: Any


class Raw(NamedTuple):
    """The makings of gates and betas, with the operator's names: A_log (HV), None for rates of 1; dt_bias, (HV) or by key (HV, K),
    None for 0; whether gates are made at all, and their lower bound, None for softplus; whether betas are, and twice of them."""

    A_log: Any = None
    dt_bias: Any = None
    use_gate: bool = False
    lower_bound: float | None = None
    use_beta_sigmoid: bool = False
    allow_neg_eigval: bool = False

    @property
    def making(self) -> Making:
        """The constants of a launch."""
        kind = "given" if not self.use_gate else "softplus" if self.lower_bound is None else "bounded"
        return Making(kind, 0.0 if not self.use_beta_sigmoid else 2.0 if self.allow_neg_eigval else 1.0)

    @property
    def parameters(self) -> GateParameters:
        """The arguments of a launch."""
        return GateParameters(self.A_log, self.dt_bias, 0.0 if self.lower_bound is None else float(self.lower_bound))


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
def maker_of(parameters, head, BIASES: tl.constexpr, MAKING: tl.constexpr):
    """The maker of a head with so many biases; None where gates are given."""
    if MAKING.GATES == "given":
        return None
    else:
        rate, bias = 1.0, None
        if parameters.A_log is not None:
            rate = tl.exp2(tl.load(parameters.A_log + head).to(tl.float32) * LOG2_E)
        if parameters.dt_bias is not None:
            bias = parameters.dt_bias + head * BIASES
        return Maker(rate, bias, parameters.bound, MAKING)


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
