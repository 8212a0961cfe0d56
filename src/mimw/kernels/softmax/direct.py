"""Softmax and log-softmax of rows of any length and stride, and their gradient: a program, or a cluster of them, takes rows into
registers.

Input: x [ROWS, N], or for the gradient y and dy [ROWS, N]. Output: y, or dx [ROWS, N]. For example:

    kernel, grid, args, meta = arguments(x, y, chosen=Configuration("direct", ctas=16, chunk=2048))
    kernel[grid](*args, **meta)

A part of a row that is longer than BLOCK is read twice, in LOOPS blocks.
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..norm.blocks import Lines, Span, block_of, span_of, zeros_of
from ..norm.exchange import exchange_of, received_pairs, send_pair
from .sums import LN2, LOG2E, finite, row_sum


@mimw.jit
def own_rows(ROWS, FORM: tl.constexpr):
    """(rows of this program, whether they are there, in a column)."""
    rows = (tl.program_id(0) // FORM.CLUSTER) * FORM.ROWS_EACH + tl.arange(0, FORM.ROWS_EACH)
    return rows.to(tl.int64)[:, None], (rows < ROWS)[:, None]


@tle.struct
class Own:
    """The rows of a program, which is CTA number `rank` of its cluster, and its part of them."""
    rank: Any
    rows: tl.tensor
    span: Span


@mimw.jit
def own_part(ROWS, N, FORM: tl.constexpr):
    """The part of this program."""
    rank = tlx.cluster_cta_rank() if FORM.CLUSTER > 1 else 0
    first = rank * (FORM.BLOCK * FORM.LOOPS)
    rows, inside = own_rows(ROWS, FORM)
    return Own(rank, rows, span_of(first, inside, N, FORM))


@mimw.jit
def read(x, block):
    """A block in units of log2(e), -inf outside."""
    return tl.load(x.at(block), mask=block.inside, other=float("-inf")).to(tl.float32) * LOG2E


@mimw.jit
def write(x, y, block, largest, total, LOG: tl.constexpr):
    """y of a block."""
    if LOG:
        result = x * LN2 - (finite(largest) + tl.log2(total))[:, None] * LN2
    else:
        result = tl.exp2(x - finite(largest)[:, None]) * (1 / total)[:, None]
    y.write(block, result)


@mimw.jit
def softmax_direct(x_ptr, y_ptr, ROWS, N, x_row, y_row, FORM: tl.constexpr, LOG: tl.constexpr):
    """y = exp(x) over the sum of its row, or its logarithm."""
    own = own_part(ROWS, N, FORM)
    rows, span = own.rows, own.span
    block = block_of(span, 0)
    if FORM.LOOPS == 1:
        x = read(Lines(x_ptr, rows * x_row), block)
        largest = tl.max(x, 1)
        total = tl.sum(tl.exp2(x - finite(largest)[:, None]), 1)
    else:
        # Each place of a block has a maximum and a sum of its own, which are put together once, at the end.
        largests = tl.full((FORM.ROWS_EACH, FORM.BLOCK), float("-inf"), tl.float32)
        totals = zeros_of(span)
        for i in range(FORM.LOOPS):
            block = block_of(span, i)
            x = read(Lines(x_ptr, rows * x_row), block)
            new = tl.maximum(largests, x)
            totals = totals * tl.exp2(largests - finite(new)) + tl.exp2(x - finite(new))
            largests = new
        largest = tl.max(largests, 1)
        total = tl.sum(totals * tl.exp2(largests - finite(largest)[:, None]), 1)
    if FORM.CLUSTER > 1:
        row_largest, row_total = row_sum(exchange_of(1, own.rank, FORM.CLUSTER).at(0), 0, largest, total)
        largest, total = tl.zeros_like(largest) + row_largest, tl.zeros_like(total) + row_total
    if FORM.LOOPS == 1:
        write(x, Lines(y_ptr, rows * y_row), block, largest, total, LOG)
    else:
        for i in range(FORM.LOOPS):
            block = block_of(span, i)
            write(read(Lines(x_ptr, rows * x_row), block), Lines(y_ptr, rows * y_row), block, largest, total, LOG)


@mimw.jit
def read_two(y, dy, block):
    """y and dy of a block, 0 outside."""
    return y.read(block), dy.read(block)


@mimw.jit
def write_gradient(y, dy, dx, block, total, LOG: tl.constexpr):
    """dx of a block."""
    result = dy - tl.exp2(y * LOG2E) * total[:, None] if LOG else y * (dy - total[:, None])
    dx.write(block, result)


@mimw.jit
def softmax_gradient(y_ptr, dy_ptr, dx_ptr, ROWS, N, y_row, dy_row, dx_row, FORM: tl.constexpr, LOG: tl.constexpr):
    """dx = y (dy - sum of y dy of the row); of the logarithm dx = dy - exp(y) (sum of dy of the row)."""
    own = own_part(ROWS, N, FORM)
    rows, span = own.rows, own.span
    block = block_of(span, 0)
    if FORM.LOOPS == 1:
        y, dy = read_two(Lines(y_ptr, rows * y_row), Lines(dy_ptr, rows * dy_row), block)
        total = tl.sum(dy if LOG else y * dy, 1)
    else:
        sums = zeros_of(span)
        for i in range(FORM.LOOPS):
            block = block_of(span, i)
            y, dy = read_two(Lines(y_ptr, rows * y_row), Lines(dy_ptr, rows * dy_row), block)
            sums += dy if LOG else y * dy
        total = tl.sum(sums, 1)
    if FORM.CLUSTER > 1:
        place = exchange_of(1, own.rank, FORM.CLUSTER).at(0)
        send_pair(place, total, total)
        totals, _ = received_pairs(place, 0)
        total = tl.zeros_like(total) + tl.sum(totals)
    if FORM.LOOPS == 1:
        write_gradient(y, dy, Lines(dx_ptr, rows * dx_row), block, total, LOG)
    else:
        for i in range(FORM.LOOPS):
            block = block_of(span, i)
            y, dy = read_two(Lines(y_ptr, rows * y_row), Lines(dy_ptr, rows * dy_row), block)
            write_gradient(y, dy, Lines(dx_ptr, rows * dx_row), block, total, LOG)
