"""The places of the k largest in a window of each row, for Hopper: fp16, bf16 and fp32, rows of any length (DeepSeek's indexer).

Input: x (M, N), and int32 starts and ends (M). Output: places (M, k), in any order. For example:

    arguments(x, starts, ends, indices)         (grid, args, meta) of a launch or `mimw.simulate` of `kernel`, numpy or torch
"""

from __future__ import annotations

from ..contract import Contract
from ..contract.memory import strides
from ..powers import power_of_two
from .configs import Configuration, configuration, streamed
from .kernel import topk_selector as kernel

__all__ = ["CONTRACT", "LONGEST", "MOST", "Configuration", "arguments", "configuration", "kernel", "power_of_two", "streamed"]

MOST = 1 << 14      # places
LONGEST = 1 << 25   # numbers of a row: the kernel counts them in 25 bits
CONTRACT = Contract("x: float (M, N) rows", "starts?: i32 (M)", "ends?: i32 (M)", "indices: int (M, k) contiguous",
                    "values?: =x (M, k) contiguous", "(starts is None) == (ends is None) -- give both starts and ends, or neither",
                    f"k <= {MOST} and N <= {LONGEST} -- {MOST} places of up to {LONGEST} numbers fit")


def arguments(x, starts, ends, indices, values=None, chosen: Configuration | None = None,
              largest: bool = True) -> tuple[tuple[int], tuple, dict]:
    """(grid, args, meta) that fill indices with the places of the k largest of x[row, starts[row]:ends[row]], in any order.

    args:      x             (M, N), rows contiguous, fp16, bf16 or fp32; NaN is larger than all numbers
               starts, ends  (M), int32, or both None for whole rows; cut to 0 and N
               indices       (M, k) int32 or int64, contiguous, k up to 16384; -1 behind the places of a window with fewer than k
               values        (M, k) of x's type, contiguous: what is there; by default nobody asks
               chosen        by default the one for the sizes; AMD's chips take one of one CTA that is not `pinned`
               largest       or the smallest
    errors:    ValueError where a shape, a stride or a type does not fit, with the numbers
    """
    of = CONTRACT.check(x=x, starts=starts, ends=ends, indices=indices, values=values)
    m, n, k, (row, _) = of.M, of.N, of.k, strides(x)
    chosen = chosen or configuration(m, n, k)
    if chosen.candidates < k or chosen.candidates != power_of_two(chosen.candidates):
        raise ValueError(f"candidates is {chosen.candidates}; it must be a power of two, {k} or more")
    order = {} if largest else {"LARGEST": False}
    return (m, ), (x, starts, ends, indices, values, n, k, row), chosen.meta(k, x.dtype.itemsize) | order
