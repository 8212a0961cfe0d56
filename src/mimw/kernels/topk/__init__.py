"""The k largest of each row, with their indices, for Hopper: fp16, bf16 and fp32, rows of up to 524288.

Input: x (M, N). Output: values and indices (M, k), in any order. For example:

    arguments(x, values, indices)       (grid, args, meta) of a launch or `mimw.simulate` of `kernel`, numpy or torch
"""

from __future__ import annotations

from ..contract import Contract
from ..contract.memory import strides
from .configs import MOST_A_CTA, MOST_CTAS, Configuration, configuration
from .kernel import topk as kernel

__all__ = ["CONTRACT", "Configuration", "arguments", "configuration", "kernel"]

CONTRACT = Contract("x: float (M, N) rows", "values: =x (M, k) contiguous", "indices: int (M, k) contiguous",
                    "k <= N -- no more are chosen than a row has")


def arguments(x, values, indices, chosen: Configuration | None = None, largest: bool = True,
              nan: bool = False) -> tuple[tuple[int], tuple, dict]:
    """(grid, args, meta) that fill values and indices with the k largest of each row, in any order.

    args:      x        (M, N), rows contiguous, fp16, bf16 or fp32
               values   (M, k) of x's type, k <= N, contiguous
               indices  (M, k), int32 or int64, contiguous
               chosen   by default the one for N
               largest  or the smallest
               nan      NaN is larger than all numbers; without it, which is a little quicker, rows with NaN give any numbers
    errors:    ValueError where a shape, a stride or a type does not fit, with the numbers
    """
    of = CONTRACT.check(x=x, values=values, indices=indices)
    m, n, k, (row, _) = of.M, of.N, of.k, strides(x)
    chosen = chosen or configuration(n)
    if n > chosen.ctas * MOST_A_CTA:
        raise ValueError(f"rows of {n} numbers do not fit: {chosen.ctas} x {MOST_A_CTA} do, and a cluster has at most "
                         f"{MOST_CTAS} CTAs")
    order = {**({} if largest else {"LARGEST": False}), **({"NAN": True} if nan else {})}
    return (m, ), (x, values, indices, n, k, row), chosen.meta(n, k, x.dtype.itemsize) | order
