"""The gradient of cross entropy from the logarithms of the rows' sums, and gradients multiplied where they lie: plain Triton.

Input: x [ROWS, N], targets, lses and dlosses [ROWS]. Output: dx [ROWS, N], which may be x. For example:

    kernel, grid, args, meta = gradient_arguments(x, targets, lses, dlosses, dx)
    kernel[grid](*args, **meta)

Each number is read once and written once; numbers that are multiplied by 1 are left alone.
"""

from collections import namedtuple

import triton.language as tl

import mimw
import mimw.tlx as tlx

from ..softmax.sums import LOG2E
from .softcap import capped, times_slope

Steps = namedtuple("Steps", "x dlosses dx")      # the distances of rows
# The weight that is spread over all classes, each one's part of it, the factor of lse^2, and the target of rows without a loss.
Weights = namedtuple("Weights", "smoothing spread z ignored")


@mimw.jit
def cross_entropy_gradient(x_ptr, targets_ptr, lses_ptr, dlosses_ptr, dx_ptr, N, steps, weights, BLOCK: tl.constexpr, cap=None):
    """dx = (softmax(x) (1 + 2 z lse) - share) dloss of a block of a row; 0 in rows whose target is `ignored`. share is
    1 - smoothing of the target and the spread of each column. With a cap, of cap tanh(x / cap), times the slope of that."""
    blocks = tl.cdiv(N, BLOCK)
    row = (tl.program_id(0) // blocks).to(tl.int64)
    columns = tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)
    inside = columns < N
    x = capped(tl.load(x_ptr + row * steps.x + columns, mask=inside, other=0).to(tl.float32), cap)
    target, lse = tl.load(targets_ptr + row), tl.load(lses_ptr + row)
    dloss = tl.load(dlosses_ptr + row * steps.dlosses).to(tl.float32)
    share = tl.where(columns == target, 1 - weights.smoothing, 0.0) + weights.spread
    dx = (tl.exp2(x * LOG2E - lse * LOG2E) * (1 + 2 * weights.z * lse) - share) * dloss
    dx = times_slope(dx, x, cap)
    tl.store(dx_ptr + row * steps.dx + columns, tl.where(target == weights.ignored, 0.0, dx).to(tlx.dtype_of(dx_ptr)), mask=inside)


@mimw.jit
def scale_rows(x_ptr, factors_ptr, ROWS, N, x_row, factors_step, BLOCK: tl.constexpr):
    """Row number i times factor number i, in place; rows whose factor is 1 are not touched."""
    for row in range(tl.program_id(0), ROWS, tl.num_programs(0)):
        factor = tl.load(factors_ptr + row * factors_step).to(tl.float32)
        if factor != 1.0:
            row_ptr = x_ptr + row.to(tl.int64) * x_row
            for first in range(0, N, BLOCK):
                columns = first + tl.arange(0, BLOCK)
                x = tl.load(row_ptr + columns, mask=columns < N).to(tl.float32)
                tl.store(row_ptr + columns, (x * factor).to(tlx.dtype_of(x_ptr)), mask=columns < N)
