"""The k largest or smallest of each row, sorted, with NaN as the largest: any GPU, fp16, bf16 and fp32.

Input: x (M, N). Output: for each block of a row its first k values in order, with their places. For example:

    blocks(100000)                              25: how many blocks a row is cut into
    arguments(x, None, values, indices)         (grid, args, meta); values and indices are (M, blocks * k)
    arguments(values, indices, v, i)            the same of what came out, until one block is left
"""

from __future__ import annotations

from ..contract import Contract
from ..contract.memory import strides
from .configs import LONGEST, block, options
from .kernel import plain_topk as kernel

__all__ = ["CONTRACT", "LONGEST", "arguments", "blocks", "kernel"]

CONTRACT = Contract(
    "x: float (M, N)", "places?: i32 (M, N)", "values: float (M, width)", "indices: int (M, width)",
    "width % count == 0 and 1 <= width // count <= length -- values and indices must be M x count blocks times k, at most length")


def blocks(n: int) -> int:
    """How many blocks a row of n numbers is."""
    return -(-n // block(n))


def arguments(x, places, values, indices, largest: bool = True) -> tuple[tuple[int], tuple, dict]:
    """(grid, args, meta) that fill values and indices.

    args:      x        (M, N) of fp16, bf16 or fp32, any strides, N of 1 or more
               places   (M, N), int32, contiguous: which index each number stands for, -1 for a number that is not there; None for
                        its column
               values   (M, blocks(N) * k) of any of these types, contiguous: the first k of each block, of equal ones the one of
                        the lowest place first; k is at most the block's length
               indices  the same of int32 or int64; -1 where a block has fewer than k numbers, with any value
               largest  or the smallest; NaN is larger than all numbers
    errors:    ValueError where shapes or types do not fit, with the numbers
    """
    count, length = blocks(x.shape[1]), block(x.shape[1])
    of = CONTRACT.check(x=x, places=places, values=values, indices=indices, count=count, length=length)
    m, n, width = of.M, of.N, of.width
    stride, step = strides(x)
    meta = dict(LARGEST=largest, HAS_PLACES=places is not None, **options(length))
    return (m * count, ), (x, indices if places is None else places, values, indices, n, width // count, count, stride, step), meta

