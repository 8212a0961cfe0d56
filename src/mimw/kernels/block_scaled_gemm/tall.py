"""Tiles of 256 x 128: each consumer has 128 rows, in two halves, so B's tiles serve twice as many rows.

Input: the pipe `inputs`, as in multiply.py, and a consumer's part of a tile. Output: the scaled sums over K of both halves:

    sums, more = multiply_tall(chunks, part)            (64, 128) each, in fp32

Both halves' sums stay in registers; their products have a third set of those in turn. A chunk's scales of columns are loaded two or
three chunks before, those of a pair together, and none is waited for in the chunk where its load began.
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx

from .multiply import BLOCK, begin_chunk, plus_scaled, product, scales_of


@mimw.jit
def plus_chunk(chunks, part, step, sums, more, found, column, ahead):
    """Both halves' sums and chunk `step` of the tile; the registers of its products; and the columns' scales of the second and
    third chunk behind it, unless they are there `ahead`."""
    LOWER: tl.constexpr = part.ROW + 64
    slot, found = begin_chunk(chunks, part, step, found)
    if ahead is None:
        ahead = (tl.load(chunks.scales_of_b(step + 2)), tl.load(chunks.scales_of_b(step + 3)))
    rows = scales_of(slot, chunks.shift, part.ROW, part.CONTIGUOUS)
    others = scales_of(slot, chunks.shift, LOWER, part.CONTIGUOUS)
    found = tlx.async_dot_wait(0, found)
    sums = plus_scaled(sums, found, rows, column)
    sums = tlx.async_dot_wait(0, sums)      # the sum is done here: the next product takes its registers
    found = product(slot, LOWER, found)
    chunks.inputs.wait(chunks.first + tl.minimum(step + 1, chunks.steps - 1))
    found = tlx.async_dot_wait(0, found)
    more = plus_scaled(more, found, others, column)
    more = tlx.async_dot_wait(0, more)
    return sums, more, found, ahead


@mimw.jit
def multiply_tall(chunks, part):
    """128 rows of A times B."""
    sums = tl.zeros((64, BLOCK), tl.float32)
    more = tl.zeros((64, BLOCK), tl.float32)
    found = tl.zeros((64, BLOCK), tl.float32)
    column, second = tl.load(chunks.at), tl.load(chunks.scales_of_b(1))
    chunks.inputs.wait(chunks.first)
    for pair in range(chunks.steps // 2):
        sums, more, found, ahead = plus_chunk(chunks, part, 2 * pair, sums, more, found, column, None)
        sums, more, found, ahead = plus_chunk(chunks, part, 2 * pair + 1, sums, more, found, second, ahead)
        column, second = ahead
    if chunks.steps % 2 != 0:
        sums, more, found, ahead = plus_chunk(chunks, part, chunks.steps - 1, sums, more, found, column, (column, second))
    tlx.fence("async_shared")
    chunks.inputs.release(chunks.first + chunks.steps - 1)
    return sums, more
