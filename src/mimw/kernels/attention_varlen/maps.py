"""Packed sequences as TMA sees them: a map of all rows, or one that ends where a sequence does.

Input: an array (total, heads, dim). Output: its descriptors, and coordinates. For example:

    packed(q, 64, 128)                  blocks of 64 rows of a head, at [head, row, 0]
    ending(v, 128, 64)                  blocks of 128 rows that end with their sequence, the first 64 columns ...
    place(start, length, head, row)     ... at this place: rows from `row` of a sequence that begins at `start`

Rows behind a sequence are those of the next one. One map for all sequences ends with each of them, by three coordinates a row:

    element (x, end, head, r, d) lies at  x (2^34 - S) + end S + head H + r S + d       S, H the strides of rows and heads

Of x = 2^30 and r = 2^30 - (end - m) the first two terms and r make 2^64 + m S: addresses have 64 bits, so that is row m. And r is
outside of the tensor from 2^30 on, which is row `end`: TMA reads 0 there and writes nothing. (../grouped_gemm does so, too.)
"""

from __future__ import annotations

import triton.language as tl

import mimw

from ..contract.memory import strides

FAR, WRAP = tl.constexpr(2**30), 2**34      # rows that a sequence has at most, and what makes addresses come round


def packed(x, rows: int, columns: int) -> mimw.TensorDescriptor | None:
    """Blocks of one head of all rows; None where they have no columns."""
    if not columns:
        return None
    (total, heads, dim), (row, head, _) = x.shape, steps(x)
    return mimw.TensorDescriptor(x, [heads, total, dim], [head, row, 1], [1, rows, columns])


def ending(x, rows: int, columns: int) -> mimw.TensorDescriptor | None:
    """Blocks that end with a sequence, by three coordinates for a row."""
    if not columns:
        return None
    (_, heads, dim), (row, head, _), far = x.shape, steps(x), FAR.value
    return mimw.TensorDescriptor(x, [far + 1, far + 1, heads, far, dim], [WRAP - row, row, head, row, 1], [1, 1, 1, rows, columns])


@mimw.jit
def place(start, length, head, row):
    """The coordinates, in a map that `ending` made, of a head's rows from `row` of the sequence on."""
    return [FAR, start + length, head, FAR - (length - row), 0]


def steps(x) -> tuple[int, ...]:
    """Strides; that of an extent of 1 says nothing, and may be what TMA refuses."""
    row, head, step = strides(x)
    whole = x.shape[1] * x.shape[2]
    return row if x.shape[0] > 1 else whole, head if x.shape[1] > 1 else x.shape[2], step
