"""Gradients of LayerNorm and RMSNorm of rows of any length, stride and type, in the registers of a program or of a cluster of them.

Input and output as in kernel.py. For example:

    launches = arguments(x, dy, w, mean, rstd, dx, dw, db, chosen=Configuration("direct", ctas=16, chunk=4096))
    for kernel, grid, args, meta in launches: kernel[grid](*args, **meta)

Where a part of a row fits into registers, the sums for dw and db are made on the way. A longer one is read twice for dx, and once
more by `weight_parts`, which takes columns instead of rows.
"""

from collections import namedtuple

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..norm.blocks import Block, Lines, block_of, span_of, zeros_of
from ..norm.exchange import exchange_of
from .chunks import means_of_row

# Rows of N columns, and the distances of rows of each matrix, in elements.
Shape = namedtuple("Shape", "rows N x dy more dx")
# The same where only x and dy are read.
Read = namedtuple("Read", "rows N x dy")


@tle.struct
class Rows:
    """Rows of x and dy, their means and 1 / deviations, and w or None; not CENTRED: means are not taken off."""
    x: Lines
    dy: Lines
    mean: tl.tensor
    rstd: tl.tensor
    w: tl.tensor | None
    CENTRED: tl.constexpr


@tle.struct
class Sums:
    """Rows of sums for dw and db; None for those that are not wanted."""
    dw: tl.tensor | None
    db: tl.tensor | None


@mimw.jit
def read_block(rows, block):
    """(h, dy, g) of a block of rows; dy and g are 0 outside."""
    x, dy = rows.x.read(block), rows.dy.read(block)
    h = (x - rows.mean[:, None]) * rows.rstd[:, None] if rows.CENTRED else x * rows.rstd[:, None]
    g = dy
    if rows.w is not None:
        g = dy * block.of_vector(rows.w)
    return h, dy, g


@mimw.jit
def write_block(h, g, rows, more, dx, block, g_mean, gh_mean):
    """dx of a block."""
    result = g - h * gh_mean[:, None]
    if rows.CENTRED:
        result -= g_mean[:, None]
    result *= rows.rstd[:, None]
    if more.pointer is not None:
        result += more.read(block)
    dx.write(block, result)


@mimw.jit
def write_sums(out, number, columns, N, dw, db):
    """The sums of blocks of dw and db over their rows, into row number `number`; nowhere where a pointer is None."""
    at = number.to(tl.int64) * N + columns
    if out.dw is not None:
        tl.store(out.dw + at, tl.sum(dw, 0), mask=columns < N)
    if out.db is not None:
        tl.store(out.db + at, tl.sum(db, 0), mask=columns < N)


@mimw.jit
def norm_backward_direct(x_ptr, dy_ptr, more_ptr, w_ptr, mean_ptr, rstd_ptr, dx_ptr, dw_ptr, db_ptr, shape, FORM: tl.constexpr,
                         CENTRED: tl.constexpr):
    """dx of all rows, and dw and db, fp32 [clusters, N], of the rows of each cluster where LOOPS is 1; else these two are None."""
    rank = tlx.cluster_cta_rank() if FORM.CLUSTER > 1 else 0
    cluster, clusters = tl.program_id(0) // FORM.CLUSTER, tl.num_programs(0) // FORM.CLUSTER
    first = rank * (FORM.BLOCK * FORM.LOOPS)
    exchange = exchange_of(2, rank, FORM.CLUSTER)
    dw = tl.zeros((FORM.ROWS_EACH, FORM.BLOCK), tl.float32)
    db = tl.zeros((FORM.ROWS_EACH, FORM.BLOCK), tl.float32)
    turn = 0
    for number in range(cluster, tl.cdiv(shape.rows, FORM.ROWS_EACH), clusters):
        own = number * FORM.ROWS_EACH + tl.arange(0, FORM.ROWS_EACH)
        wide = own.to(tl.int64)[:, None]
        x, dy = Lines(x_ptr, wide * shape.x), Lines(dy_ptr, wide * shape.dy)
        more, dx = Lines(more_ptr, wide * shape.more), Lines(dx_ptr, wide * shape.dx)
        rstd = tl.load(rstd_ptr + own, mask=own < shape.rows, other=0.0)
        mean = tl.load(mean_ptr + own, mask=own < shape.rows, other=0.0) if CENTRED else tl.zeros_like(rstd)
        rows, span = Rows(x, dy, mean, rstd, w_ptr, CENTRED), span_of(first, (own < shape.rows)[:, None], shape.N, FORM)
        block = block_of(span, 0)
        if FORM.LOOPS == 1:
            h, dys, g = read_block(rows, block)
            if dw_ptr is not None:
                dw += dys * h
            if db_ptr is not None:
                db += dys
            g_sums, gh_sums = g, g * h
        else:
            g_sums, gh_sums = zeros_of(span), zeros_of(span)
            for i in range(FORM.LOOPS):
                h, dys, g = read_block(rows, block_of(span, i))
                g_sums += g
                gh_sums += g * h
        g_sum = tl.sum(g_sums, 1) if CENTRED else tl.zeros_like(rstd)
        g_mean, gh_mean = means_of_row(g_sum, tl.sum(gh_sums, 1), exchange, turn % 2, turn // 2 % 2, shape.N)
        if FORM.CLUSTER > 1:
            g_mean, gh_mean = tl.zeros_like(rstd) + g_mean, tl.zeros_like(rstd) + gh_mean
        if FORM.LOOPS == 1:
            write_block(h, g, rows, more, dx, block, g_mean, gh_mean)
        else:
            for i in range(FORM.LOOPS):
                block = block_of(span, i)
                h, dys, g = read_block(rows, block)
                write_block(h, g, rows, more, dx, block, g_mean, gh_mean)
        turn += 1
    columns = first + tl.arange(0, FORM.BLOCK)
    write_sums(Sums(dw_ptr, db_ptr), cluster, columns, shape.N, dw, db)


@mimw.jit
def weight_parts(x_ptr, dy_ptr, mean_ptr, rstd_ptr, dw_ptr, db_ptr, shape, ROWS_EACH: tl.constexpr, COLUMNS: tl.constexpr,
                 CENTRED: tl.constexpr):
    """dw and db, fp32 [programs of axis 1, N], of every so many-th block of ROWS_EACH rows; either may be None."""
    columns = (tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS))[None, :]
    dw = tl.zeros((ROWS_EACH, COLUMNS), tl.float32)
    db = tl.zeros((ROWS_EACH, COLUMNS), tl.float32)
    for number in range(tl.program_id(1), tl.cdiv(shape.rows, ROWS_EACH), tl.num_programs(1)):
        own = number * ROWS_EACH + tl.arange(0, ROWS_EACH)
        wide = own.to(tl.int64)[:, None]
        block = Block(columns, (own < shape.rows)[:, None] & (columns < shape.N), shape.N)
        rstd = tl.load(rstd_ptr + own, mask=own < shape.rows, other=0.0)
        mean = tl.load(mean_ptr + own, mask=own < shape.rows, other=0.0) if CENTRED else tl.zeros_like(rstd)
        rows = Rows(Lines(x_ptr, wide * shape.x), Lines(dy_ptr, wide * shape.dy), mean, rstd, None, CENTRED)
        h, dy, _ = read_block(rows, block)
        dw += dy * h
        db += dy
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    write_sums(Sums(dw_ptr, db_ptr), tl.program_id(1), columns, shape.N, dw, db)
