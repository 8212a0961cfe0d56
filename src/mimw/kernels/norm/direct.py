"""LayerNorm and RMSNorm of rows of any length, stride and type: a program, or a cluster of them, takes a few rows into registers.

Input: x [ROWS, N], and optionally residual [ROWS, N], w [N], b [N]. Output: y [ROWS, N]; optionally the sum x + residual, and mean
and 1 / deviation of each row. For example:

    grid, args, meta = arguments(x, w, b, y, chosen=Configuration(form="direct", ctas=16))
    norm_direct[grid](*args, **meta)

For what kernel.py is not made for: few rows, whose time is that of a launch, of the first bytes and of one exchange between the
CTAs of a cluster; short rows, of which a program takes ROWS_EACH; rows that bulk copies refuse. A part of a row that is longer than
BLOCK is read twice, in LOOPS blocks.
"""

from collections import namedtuple

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from .blocks import Lines, block_of, span_of, zeros_of
from .exchange import exchange_of, send_pair
from .statistics import row_statistics

# Rows of N columns, and the distances of rows of each matrix, in elements; columns are contiguous.
Shape = namedtuple("Shape", "rows N x residual y total")


@tle.struct
class Inputs:
    """Rows of x, and, or None, of the residual, and of the sum x + residual, which is written where it is read first."""
    x: Lines
    residual: Lines
    total: Lines


@tle.struct
class Affine:
    """The factors of a row's columns, and what is added to them; either may be None."""
    w: tl.tensor | None
    b: tl.tensor | None


@mimw.jit
def read_block(inputs, block, STORE: tl.constexpr):
    """A block of rows in fp32, the residual added and rounded to the type of the sum, which goes out where STORE; zeros outside."""
    x = inputs.x.read(block)
    if inputs.residual.pointer is not None:
        x += inputs.residual.read(block)
    if inputs.total.pointer is not None:
        rounded = x.to(tlx.dtype_of(inputs.total.pointer))
        if STORE:
            inputs.total.write(block, rounded)
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
def looped_statistics(inputs, span, count, CENTRED: tl.constexpr):
    """The same of all blocks of a span. Each place of a block has a mean and squares of its own, put together at the end."""
    means, squares = zeros_of(span), zeros_of(span)
    for i in range(span.LOOPS):
        block = block_of(span, i)
        x = read_block(inputs, block, True)
        if CENTRED:
            away = tl.where(block.inside, x - means, 0.0)
            means += away / (i + 1)
            squares += away * (x - means)
        else:
            squares += x * x
    mean = tl.zeros((span.ROWS_EACH, ), tl.float32)
    if CENTRED:
        last = span.N - span.first - tl.arange(0, span.BLOCK)
        seen = tl.minimum(tl.maximum(tl.cdiv(last, span.BLOCK), 0), span.LOOPS).to(tl.float32)[None, :]
        mean = tl.sum(means * seen, 1) / tl.maximum(count, 1)
        away = means - mean[:, None]
        squares += seen * away * away
    return mean, tl.sum(squares, 1)


@mimw.jit
def write_block(x, affine, y, block, mean, scale, CENTRED: tl.constexpr):
    """y of a block."""
    result = (x - mean[:, None]) * scale[:, None] if CENTRED else x * scale[:, None]
    if affine.w is not None:
        result *= block.of_vector(affine.w)
    if affine.b is not None:
        result += block.of_vector(affine.b)
    y.write(block, result)


@mimw.jit
def norm_direct(x_ptr, residual_ptr, w_ptr, b_ptr, y_ptr, total_ptr, mean_ptr, rstd_ptr, shape, eps, FORM: tl.constexpr,
                CENTRED: tl.constexpr):
    """y = (x - mean) / sqrt(variance + eps) w + b of each row of x + residual; not CENTRED: x / sqrt(mean square + eps) w + b.

    args:      residual, w, b, total, mean, rstd   may be None
               shape  `Shape`; FORM of blocks.py, one row a program in a cluster
    """
    rank = tlx.cluster_cta_rank() if FORM.CLUSTER > 1 else 0
    first = rank * (FORM.BLOCK * FORM.LOOPS)
    count = tl.maximum(tl.minimum(shape.N - first, FORM.BLOCK * FORM.LOOPS), 0)
    rows = (tl.program_id(0) // FORM.CLUSTER) * FORM.ROWS_EACH + tl.arange(0, FORM.ROWS_EACH)
    span = span_of(first, (rows < shape.rows)[:, None], shape.N, FORM)
    wide = rows.to(tl.int64)[:, None]
    x, residual, y = Lines(x_ptr, wide * shape.x), Lines(residual_ptr, wide * shape.residual), Lines(y_ptr, wide * shape.y)
    inputs, affine = Inputs(x, residual, Lines(total_ptr, wide * shape.total)), Affine(w_ptr, b_ptr)
    block = block_of(span, 0)
    if FORM.LOOPS == 1:
        tile = read_block(inputs, block, True)
        mean, squares = block_statistics(tile, block.inside, count, CENTRED)
    else:
        mean, squares = looped_statistics(inputs, span, count, CENTRED)
    if FORM.CLUSTER == 1:
        variance = squares / shape.N
    else:
        place = exchange_of(1, rank, FORM.CLUSTER).at(0)
        send_pair(place, mean, squares)
        row_mean, row_variance = row_statistics(place, 0, shape.N, FORM.BLOCK * FORM.LOOPS)
        mean, variance = tl.zeros_like(mean) + row_mean, tl.zeros_like(mean) + row_variance
    scale = tl.rsqrt(variance + eps)
    if mean_ptr is not None:
        tl.store(mean_ptr + rows, mean, mask=(rows < shape.rows) & (rank == 0))
    if rstd_ptr is not None:
        tl.store(rstd_ptr + rows, scale, mask=(rows < shape.rows) & (rank == 0))
    if FORM.LOOPS == 1:
        write_block(tile, affine, y, block, mean, scale, CENTRED)
    else:
        for i in range(FORM.LOOPS):
            block = block_of(span, i)
            write_block(read_block(inputs, block, False), affine, y, block, mean, scale, CENTRED)
