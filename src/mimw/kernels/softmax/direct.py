"""Softmax and log-softmax of rows of any length and stride, and their gradient: a program, or a cluster of them, takes rows into
registers.

Input: x [ROWS, N], or for the gradient y and dy [ROWS, N]. Output: y, or dx [ROWS, N]. For example:

    kernel, grid, args, meta = arguments(x, y, chosen=Configuration("direct", ctas=16, chunk=2048))
    kernel[grid](*args, **meta)

A part of a row that is longer than BLOCK is read twice, in LOOPS blocks.
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx

from ..norm.statistics import send_statistics
from .sums import LN2, LOG2E, finite, row_sum


@mimw.jit
def own_rows(ROWS, ROWS_EACH: tl.constexpr, CLUSTER: tl.constexpr):
    """(rows of this program, whether they are there, in a column)."""
    rows = (tl.program_id(0) // CLUSTER) * ROWS_EACH + tl.arange(0, ROWS_EACH)
    return rows.to(tl.int64)[:, None], (rows < ROWS)[:, None]


@mimw.jit
def block_of(first, i, rows_inside, N, BLOCK: tl.constexpr):
    """(columns of block number i, where they are in a row that is there)."""
    columns = (first + i * BLOCK + tl.arange(0, BLOCK))[None, :]
    return columns, rows_inside & (columns < N)


@mimw.jit
def read(x_ptr, x_at, columns, inside):
    """A block in units of log2(e), -inf outside."""
    return tl.load(x_ptr + x_at + columns, mask=inside, other=float("-inf")).to(tl.float32) * LOG2E


@mimw.jit
def write(x, y_ptr, y_at, columns, inside, largest, total, LOG: tl.constexpr):
    """y of a block."""
    if LOG:
        y = x * LN2 - (finite(largest) + tl.log2(total))[:, None] * LN2
    else:
        y = tl.exp2(x - finite(largest)[:, None]) * (1 / total)[:, None]
    tl.store(y_ptr + y_at + columns, y.to(tlx.dtype_of(y_ptr)), mask=inside)


@mimw.jit
def softmax_direct(x_ptr, y_ptr, ROWS, N, x_row, y_row, ROWS_EACH: tl.constexpr, BLOCK: tl.constexpr, LOOPS: tl.constexpr,
                   CLUSTER: tl.constexpr, LOG: tl.constexpr):
    """y = exp(x) over the sum of its row, or its logarithm."""
    rank = tlx.cluster_cta_rank() if CLUSTER > 1 else 0
    first = rank * (BLOCK * LOOPS)
    rows, rows_inside = own_rows(ROWS, ROWS_EACH, CLUSTER)
    columns, inside = block_of(first, 0, rows_inside, N, BLOCK)
    if LOOPS == 1:
        x = read(x_ptr, rows * x_row, columns, inside)
        largest = tl.max(x, 1)
        total = tl.sum(tl.exp2(x - finite(largest)[:, None]), 1)
    else:
        # Each place of a block has a maximum and a sum of its own, which are put together once, at the end.
        largests = tl.full((ROWS_EACH, BLOCK), float("-inf"), tl.float32)
        totals = tl.zeros((ROWS_EACH, BLOCK), tl.float32)
        for i in range(LOOPS):
            columns, inside = block_of(first, i, rows_inside, N, BLOCK)
            x = read(x_ptr, rows * x_row, columns, inside)
            new = tl.maximum(largests, x)
            totals = totals * tl.exp2(largests - finite(new)) + tl.exp2(x - finite(new))
            largests = new
        largest = tl.max(largests, 1)
        total = tl.sum(totals * tl.exp2(largests - finite(largest)[:, None]), 1)
    if CLUSTER > 1:
        parts, arrived = tlx.local_alloc((CLUSTER, 2), tl.float32, 1), tlx.alloc_barriers(1)
        row_largest, row_total = row_sum(largest, total, parts[0], arrived[0], 0, rank, CLUSTER)
        largest, total = tl.zeros_like(largest) + row_largest, tl.zeros_like(total) + row_total
    if LOOPS == 1:
        write(x, y_ptr, rows * y_row, columns, inside, largest, total, LOG)
    else:
        for i in range(LOOPS):
            columns, inside = block_of(first, i, rows_inside, N, BLOCK)
            write(read(x_ptr, rows * x_row, columns, inside), y_ptr, rows * y_row, columns, inside, largest, total, LOG)


@mimw.jit
def read_two(y_ptr, dy_ptr, y_at, dy_at, columns, inside):
    """y and dy of a block, 0 outside."""
    y = tl.load(y_ptr + y_at + columns, mask=inside, other=0).to(tl.float32)
    return y, tl.load(dy_ptr + dy_at + columns, mask=inside, other=0).to(tl.float32)


@mimw.jit
def write_gradient(y, dy, dx_ptr, dx_at, columns, inside, total, LOG: tl.constexpr):
    """dx of a block."""
    dx = dy - tl.exp2(y * LOG2E) * total[:, None] if LOG else y * (dy - total[:, None])
    tl.store(dx_ptr + dx_at + columns, dx.to(tlx.dtype_of(dx_ptr)), mask=inside)


@mimw.jit
def softmax_gradient(y_ptr, dy_ptr, dx_ptr, ROWS, N, y_row, dy_row, dx_row, ROWS_EACH: tl.constexpr, BLOCK: tl.constexpr,
                     LOOPS: tl.constexpr, CLUSTER: tl.constexpr, LOG: tl.constexpr):
    """dx = y (dy - sum of y dy of the row); of the logarithm dx = dy - exp(y) (sum of dy of the row)."""
    rank = tlx.cluster_cta_rank() if CLUSTER > 1 else 0
    first = rank * (BLOCK * LOOPS)
    rows, rows_inside = own_rows(ROWS, ROWS_EACH, CLUSTER)
    columns, inside = block_of(first, 0, rows_inside, N, BLOCK)
    if LOOPS == 1:
        y, dy = read_two(y_ptr, dy_ptr, rows * y_row, rows * dy_row, columns, inside)
        total = tl.sum(dy if LOG else y * dy, 1)
    else:
        sums = tl.zeros((ROWS_EACH, BLOCK), tl.float32)
        for i in range(LOOPS):
            columns, inside = block_of(first, i, rows_inside, N, BLOCK)
            y, dy = read_two(y_ptr, dy_ptr, rows * y_row, rows * dy_row, columns, inside)
            sums += dy if LOG else y * dy
        total = tl.sum(sums, 1)
    if CLUSTER > 1:
        parts, arrived = tlx.local_alloc((CLUSTER, 2), tl.float32, 1), tlx.alloc_barriers(1)
        send_statistics(total, total, parts[0], arrived[0], rank, CLUSTER)
        tlx.barrier_wait(arrived[0], 0)
        totals, _ = tlx.local_load(parts[0]).split()
        total = tl.zeros_like(total) + tl.sum(totals)
    if LOOPS == 1:
        write_gradient(y, dy, dx_ptr, rows * dx_row, columns, inside, total, LOG)
    else:
        for i in range(LOOPS):
            columns, inside = block_of(first, i, rows_inside, N, BLOCK)
            y, dy = read_two(y_ptr, dy_ptr, rows * y_row, rows * dy_row, columns, inside)
            write_gradient(y, dy, dx_ptr, rows * dx_row, columns, inside, total, LOG)
