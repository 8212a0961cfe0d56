"""Gradients of LayerNorm and RMSNorm of rows of any length, stride and type, in the registers of a program or of a cluster of them.

Input and output as in kernel.py. For example:

    launches = arguments(x, dy, w, mean, rstd, dx, dw, db, chosen=Configuration("direct", ctas=16, chunk=4096))
    for kernel, grid, args, meta in launches: kernel[grid](*args, **meta)

Where a part of a row fits into registers, the sums for dw and db are made on the way. A longer one is read twice for dx, and once
more by `weight_parts`, which takes columns instead of rows.
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx

from .chunks import means_of_row


@mimw.jit
def read_block(x_ptr, dy_ptr, w_ptr, x_at, dy_at, columns, inside, N, mean, rstd, CENTRED: tl.constexpr):
    """(h, dy, g) of a block of rows; dy and g are 0 outside."""
    x = tl.load(x_ptr + x_at + columns, mask=inside, other=0).to(tl.float32)
    dy = tl.load(dy_ptr + dy_at + columns, mask=inside, other=0).to(tl.float32)
    h = (x - mean[:, None]) * rstd[:, None] if CENTRED else x * rstd[:, None]
    g = dy
    if w_ptr is not None:
        g = dy * tl.load(w_ptr + columns, mask=columns < N, other=0).to(tl.float32)
    return h, dy, g


@mimw.jit
def write_block(h, g, more_ptr, dx_ptr, more_at, dx_at, columns, inside, g_mean, gh_mean, rstd, CENTRED: tl.constexpr):
    """dx of a block."""
    dx = g - h * gh_mean[:, None]
    if CENTRED:
        dx -= g_mean[:, None]
    dx *= rstd[:, None]
    if more_ptr is not None:
        dx += tl.load(more_ptr + more_at + columns, mask=inside, other=0).to(tl.float32)
    tl.store(dx_ptr + dx_at + columns, dx.to(tlx.dtype_of(dx_ptr)), mask=inside)


@mimw.jit
def norm_backward_direct(x_ptr, dy_ptr, more_ptr, w_ptr, mean_ptr, rstd_ptr, dx_ptr, dw_ptr, db_ptr, ROWS, N, x_row, dy_row,
                         more_row, dx_row, ROWS_EACH: tl.constexpr, BLOCK: tl.constexpr, LOOPS: tl.constexpr, CLUSTER: tl.constexpr,
                         CENTRED: tl.constexpr):
    """dx of all rows, and dw and db, fp32 [clusters, N], of the rows of each cluster where LOOPS is 1; else these two are None."""
    rank = tlx.cluster_cta_rank() if CLUSTER > 1 else 0
    cluster, clusters = tl.program_id(0) // CLUSTER, tl.num_programs(0) // CLUSTER
    first = rank * (BLOCK * LOOPS)
    parts, arrived = None, None
    if CLUSTER > 1:
        parts, arrived = tlx.local_alloc((CLUSTER, 2), tl.float32, 2), tlx.alloc_barriers(2)
    dw = tl.zeros((ROWS_EACH, BLOCK), tl.float32)
    db = tl.zeros((ROWS_EACH, BLOCK), tl.float32)
    turn = 0
    for block in range(cluster, tl.cdiv(ROWS, ROWS_EACH), clusters):
        rows = block * ROWS_EACH + tl.arange(0, ROWS_EACH)
        wide = rows.to(tl.int64)[:, None]
        x_at, dy_at, more_at, dx_at = wide * x_row, wide * dy_row, wide * more_row, wide * dx_row
        rstd = tl.load(rstd_ptr + rows, mask=rows < ROWS, other=0.0)
        mean = tl.load(mean_ptr + rows, mask=rows < ROWS, other=0.0) if CENTRED else tl.zeros_like(rstd)
        columns = (first + tl.arange(0, BLOCK))[None, :]
        inside = (rows < ROWS)[:, None] & (columns < N)
        if LOOPS == 1:
            h, dy, g = read_block(x_ptr, dy_ptr, w_ptr, x_at, dy_at, columns, inside, N, mean, rstd, CENTRED)
            if dw_ptr is not None:
                dw += dy * h
            if db_ptr is not None:
                db += dy
            g_sums, gh_sums = g, g * h
        else:
            g_sums = tl.zeros((ROWS_EACH, BLOCK), tl.float32)
            gh_sums = tl.zeros((ROWS_EACH, BLOCK), tl.float32)
            for i in range(LOOPS):
                columns = (first + i * BLOCK + tl.arange(0, BLOCK))[None, :]
                inside = (rows < ROWS)[:, None] & (columns < N)
                h, dy, g = read_block(x_ptr, dy_ptr, w_ptr, x_at, dy_at, columns, inside, N, mean, rstd, CENTRED)
                g_sums += g
                gh_sums += g * h
        g_sum = tl.sum(g_sums, 1) if CENTRED else tl.zeros_like(rstd)
        g_mean, gh_mean = means_of_row(g_sum, tl.sum(gh_sums, 1), parts, arrived, turn % 2, turn // 2 % 2, rank, N, CLUSTER)
        if CLUSTER > 1:
            g_mean, gh_mean = tl.zeros_like(rstd) + g_mean, tl.zeros_like(rstd) + gh_mean
        if LOOPS == 1:
            write_block(h, g, more_ptr, dx_ptr, more_at, dx_at, columns, inside, g_mean, gh_mean, rstd, CENTRED)
        else:
            for i in range(LOOPS):
                columns = (first + i * BLOCK + tl.arange(0, BLOCK))[None, :]
                inside = (rows < ROWS)[:, None] & (columns < N)
                h, dy, g = read_block(x_ptr, dy_ptr, w_ptr, x_at, dy_at, columns, inside, N, mean, rstd, CENTRED)
                write_block(h, g, more_ptr, dx_ptr, more_at, dx_at, columns, inside, g_mean, gh_mean, rstd, CENTRED)
        turn += 1
    columns = first + tl.arange(0, BLOCK)
    at = cluster.to(tl.int64) * N + columns
    if dw_ptr is not None:
        tl.store(dw_ptr + at, tl.sum(dw, 0), mask=columns < N)
    if db_ptr is not None:
        tl.store(db_ptr + at, tl.sum(db, 0), mask=columns < N)


@mimw.jit
def weight_parts(x_ptr, dy_ptr, mean_ptr, rstd_ptr, dw_ptr, db_ptr, ROWS, N, x_row, dy_row, ROWS_EACH: tl.constexpr,
                 COLUMNS: tl.constexpr, CENTRED: tl.constexpr):
    """dw and db, fp32 [programs of axis 1, N], of every so many-th block of ROWS_EACH rows; either may be None."""
    columns = (tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS))[None, :]
    dw = tl.zeros((ROWS_EACH, COLUMNS), tl.float32)
    db = tl.zeros((ROWS_EACH, COLUMNS), tl.float32)
    for block in range(tl.program_id(1), tl.cdiv(ROWS, ROWS_EACH), tl.num_programs(1)):
        rows = block * ROWS_EACH + tl.arange(0, ROWS_EACH)
        wide = rows.to(tl.int64)[:, None]
        inside = (rows < ROWS)[:, None] & (columns < N)
        rstd = tl.load(rstd_ptr + rows, mask=rows < ROWS, other=0.0)
        mean = tl.load(mean_ptr + rows, mask=rows < ROWS, other=0.0) if CENTRED else tl.zeros_like(rstd)
        h, dy, _ = read_block(x_ptr, dy_ptr, None, wide * x_row, wide * dy_row, columns, inside, N, mean, rstd, CENTRED)
        dw += dy * h
        db += dy
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    at = tl.program_id(1).to(tl.int64) * N + columns
    if dw_ptr is not None:
        tl.store(dw_ptr + at, tl.sum(dw, 0), mask=columns < N)
    if db_ptr is not None:
        tl.store(db_ptr + at, tl.sum(db, 0), mask=columns < N)
