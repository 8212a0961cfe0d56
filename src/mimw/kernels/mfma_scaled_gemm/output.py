"""Sums on their way to C, straight from the registers that they were summed up in.

Input: a tile of sums, and its place. Output: C is written, in its own type, as far as it reaches. For example:

    store(upper, c, m, n, sizes, steps.c)

Through LDS stores would be wider by half, but a tile of sums does not fit beside the ring; a lane has four neighbours along N.
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx


@mimw.jit
def store(sums, c_ptr, m, n, sizes, stride):
    """Write the sums to C from row m and column n on."""
    row, column = tl.arange(0, sums.shape[0]), tl.arange(0, sums.shape[1])
    there = c_ptr + m.to(tl.int64) * stride + n
    inside = (row[:, None] < sizes.M - m) & (column[None, :] < sizes.N - n)
    values = tlx.release_layout(sums).to(tlx.dtype_of(c_ptr))
    tlx.buffer_store(values, tlx.assume_uniform(there), row[:, None] * stride + column[None, :], mask=inside)
