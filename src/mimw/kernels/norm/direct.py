"""LayerNorm and RMSNorm of rows of any length, stride and type: a program, or a cluster of them, takes a few rows into registers.

Input: x [ROWS, N], and optionally residual [ROWS, N], w [N], b [N]. Output: y [ROWS, N]; optionally the sum x + residual, and mean
and 1 / deviation of each row. For example:

    grid, args, meta = arguments(x, w, b, y, chosen=Configuration(form="direct", ctas=16))
    norm_direct[grid](*args, **meta)

For what kernel.py is not made for: few rows, whose time is that of a launch, of the first bytes and of one exchange between the
CTAs of a cluster; short rows, of which a program takes ROWS_EACH; rows that bulk copies refuse. A part of a row that is longer than
BLOCK is read twice, in LOOPS blocks.
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx

from .statistics import row_statistics, send_statistics


@mimw.jit
def read_block(x_ptr, residual_ptr, total_ptr, x_at, residual_at, total_at, columns, inside, STORE: tl.constexpr):
    """A block of rows in fp32, the residual added and rounded to the type of the sum, which goes out where STORE; zeros outside."""
    x = tl.load(x_ptr + x_at + columns, mask=inside, other=0).to(tl.float32)
    if residual_ptr is not None:
        x += tl.load(residual_ptr + residual_at + columns, mask=inside, other=0).to(tl.float32)
    if total_ptr is not None:
        rounded = x.to(tlx.dtype_of(total_ptr))
        if STORE:
            tl.store(total_ptr + total_at + columns, rounded, mask=inside)
        x = rounded.to(tl.float32)
    return x


@mimw.jit
def block_statistics(x, inside, count, CENTRED: tl.constexpr):
    """(mean, squares about it) of the `count` columns of each row of a block."""
    mean = tl.zeros((x.shape[0], ), tl.float32)
    centred = x
    if CENTRED:
        mean = tl.sum(x, 1) / tl.maximum(count, 1)
        centred = tl.where(inside, x - mean[:, None], 0.0)
    return mean, tl.sum(centred * centred, 1)


@mimw.jit
def looped_statistics(x_ptr, residual_ptr, total_ptr, x_at, residual_at, total_at, first, rows_inside, N, count,
                      ROWS_EACH: tl.constexpr, BLOCK: tl.constexpr, LOOPS: tl.constexpr, CENTRED: tl.constexpr):
    """The same of LOOPS blocks from column `first` on. Each place of a block has a mean and squares of its own, which are put
    together once, at the end."""
    means = tl.zeros((ROWS_EACH, BLOCK), tl.float32)
    squares = tl.zeros((ROWS_EACH, BLOCK), tl.float32)
    for i in range(LOOPS):
        columns = (first + i * BLOCK + tl.arange(0, BLOCK))[None, :]
        inside = rows_inside & (columns < N)
        x = read_block(x_ptr, residual_ptr, total_ptr, x_at, residual_at, total_at, columns, inside, True)
        if CENTRED:
            away = tl.where(inside, x - means, 0.0)
            means += away / (i + 1)
            squares += away * (x - means)
        else:
            squares += x * x
    mean = tl.zeros((ROWS_EACH, ), tl.float32)
    if CENTRED:
        seen = tl.minimum(tl.maximum(tl.cdiv(N - first - tl.arange(0, BLOCK), BLOCK), 0), LOOPS).to(tl.float32)[None, :]
        mean = tl.sum(means * seen, 1) / tl.maximum(count, 1)
        away = means - mean[:, None]
        squares += seen * away * away
    return mean, tl.sum(squares, 1)


@mimw.jit
def write_block(x, w_ptr, b_ptr, y_ptr, y_at, columns, inside, mean, scale, N, CENTRED: tl.constexpr):
    """y of a block."""
    y = (x - mean[:, None]) * scale[:, None] if CENTRED else x * scale[:, None]
    if w_ptr is not None:
        y *= tl.load(w_ptr + columns, mask=columns < N, other=0).to(tl.float32)
    if b_ptr is not None:
        y += tl.load(b_ptr + columns, mask=columns < N, other=0).to(tl.float32)
    tl.store(y_ptr + y_at + columns, y.to(tlx.dtype_of(y_ptr)), mask=inside)


@mimw.jit
def norm_direct(x_ptr, residual_ptr, w_ptr, b_ptr, y_ptr, total_ptr, mean_ptr, rstd_ptr, ROWS, N, x_row, residual_row, y_row,
                total_row, eps, ROWS_EACH: tl.constexpr, BLOCK: tl.constexpr, LOOPS: tl.constexpr, CLUSTER: tl.constexpr,
                CENTRED: tl.constexpr, EARLY: tl.constexpr):
    """y = (x - mean) / sqrt(variance + eps) w + b of each row of x + residual; not CENTRED: x / sqrt(mean square + eps) w + b.

    args:      residual, w, b, total, mean, rstd   may be None
               x_row, ...  distances of rows, in elements; their columns are contiguous
               ROWS_EACH   rows of a program; 1 in a cluster
    """
    rank = tlx.cluster_cta_rank() if CLUSTER > 1 else 0
    first = rank * (BLOCK * LOOPS)
    count = tl.maximum(tl.minimum(N - first, BLOCK * LOOPS), 0)
    rows = (tl.program_id(0) // CLUSTER) * ROWS_EACH + tl.arange(0, ROWS_EACH)
    rows_inside = (rows < ROWS)[:, None]
    wide = rows.to(tl.int64)[:, None]
    x_at, residual_at, y_at, total_at = wide * x_row, wide * residual_row, wide * y_row, wide * total_row
    columns = (first + tl.arange(0, BLOCK))[None, :]
    inside = rows_inside & (columns < N)
    if LOOPS == 1:
        x = read_block(x_ptr, residual_ptr, total_ptr, x_at, residual_at, total_at, columns, inside, True)
        mean, squares = block_statistics(x, inside, count, CENTRED)
    else:
        mean, squares = looped_statistics(x_ptr, residual_ptr, total_ptr, x_at, residual_at, total_at, first, rows_inside, N, count,
                                          ROWS_EACH, BLOCK, LOOPS, CENTRED)
    if CLUSTER == 1:
        variance = squares / N
    else:
        parts, arrived = tlx.local_alloc((CLUSTER, 2), tl.float32, 1), tlx.alloc_barriers(1)
        send_statistics(mean, squares, parts[0], arrived[0], rank, CLUSTER)
        row_mean, row_variance = row_statistics(parts[0], arrived[0], 0, N, BLOCK * LOOPS, CLUSTER)
        mean, variance = tl.zeros_like(mean) + row_mean, tl.zeros_like(mean) + row_variance
    scale = tl.rsqrt(variance + eps)
    if mean_ptr is not None:
        tl.store(mean_ptr + rows, mean, mask=(rows < ROWS) & (rank == 0))
    if rstd_ptr is not None:
        tl.store(rstd_ptr + rows, scale, mask=(rows < ROWS) & (rank == 0))
    if LOOPS == 1:
        write_block(x, w_ptr, b_ptr, y_ptr, y_at, columns, inside, mean, scale, N, CENTRED)
    else:
        for i in range(LOOPS):
            columns = (first + i * BLOCK + tl.arange(0, BLOCK))[None, :]
            inside = rows_inside & (columns < N)
            x = read_block(x_ptr, residual_ptr, total_ptr, x_at, residual_at, total_at, columns, inside, False)
            write_block(x, w_ptr, b_ptr, y_ptr, y_at, columns, inside, mean, scale, N, CENTRED)
