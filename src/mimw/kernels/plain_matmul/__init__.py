"""A product of batches of matrices that takes any strides and runs on any GPU: what the Hopper GEMM's TMA cannot read.

Input: a (Z, M, K) and b (Z, K, N). Output: c = a b, (Z, M, N). For example:

    arguments(a, b, c)                              c = a b: (grid, args, meta) of a launch or `mimw.simulate` of `kernel`,
                                                    numpy or torch
    arguments(a, b, c, False, (source, target))     c[target] = a[source] b
"""

from __future__ import annotations

from ..contract import Contract
from ..contract.memory import strides
from ..products import TYPES
from .configs import meta as compile_time
from .kernel import plain_matmul as kernel
from .nouns import Problem, Steps, StepsOfAll

__all__ = ["CONTRACT", "arguments", "kernel"]

CONTRACT = Contract(f"a: {TYPES} (Z, A, K)", "b: =a|fp8 (Z, K, N)", f"c: {TYPES} (Z, C, N)", "source?: i32 (R)", "target?: i32 (R)",
                    "source is not None or A == C -- c must have the rows of a", empty="A, K, R")


def arguments(a, b, c, exact: bool = False, picked: tuple | None = None) -> tuple[tuple[int], tuple, dict]:
    """(grid, args, meta) that compute c = a b, or c[:, target] = a[:, source] b.

    args:      a      (Z, M, K), any strides: bf16, fp16, fp32, fp8 e4m3 or e5m2; K may be 0, which gives zeros
               b      (Z, K, N) of a's type, or fp8 as a is
               c      (Z, M, N) of any of these types
               exact  fp32 products as fp32 has them; else as tf32, 10 bits of mantissa. No matter for other types
               picked (source, target), row numbers (R), int32, of a and c: a row outside of a is zeros, one outside of c is left
                      out, of equal ones of c any may win; rows of c that are not named stay
    errors:    ValueError where extents or types do not fit, with the numbers
    """
    source, target = picked or (None, None)
    of = CONTRACT.check(a=a, b=b, c=c, source=source, target=target)
    problem = Problem(of.A if source is None else of.R, of.N, of.K, of.A, of.C)
    chosen = compile_time(problem.M, problem.N, problem.K, a.dtype.itemsize, exact)
    tiles = -(-problem.M // chosen["FORM"].BM.value) * -(-problem.N // chosen["FORM"].BN.value) * of.Z
    return (tiles, ), (a, b, c, source, target, problem, StepsOfAll(*(Steps(*strides(x)) for x in (a, b, c)))), chosen
