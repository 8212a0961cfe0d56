"""Cross entropy of rows of logits, and the gradient of the logits, which may take the logits' place: one read for the sums, one
read and one write for the gradient.

Input: x [ROWS, N], targets [ROWS]. Output: losses [ROWS], and dx [ROWS, N], which may be x itself. For example:

    kernel, grid, args, meta = cross_entropy_arguments(x, targets, losses, dx=x)
    kernel[grid](*args, **meta)

loss = log(sum of exp(x)) - x[target]; with smoothing s the target has a share of 1 - s, and s is spread over all N columns.
dx = (softmax(x) - share) scale. Rows whose target is `ignored` have neither loss nor gradient. A number of x is read only by the
thread that writes its dx, so nothing is read after it was overwritten.
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx

from ..norm.statistics import send_statistics
from .direct import block_of, own_rows, read
from .sums import LN2, finite, row_sum


@mimw.jit
def partial_sums(x, largests, totals):
    """Each place of a block keeps a maximum and a sum of its own."""
    new = tl.maximum(largests, x)
    return new, totals * tl.exp2(largests - finite(new)) + tl.exp2(x - finite(new))


@mimw.jit
def cross_entropy_direct(x_ptr, targets_ptr, losses_ptr, dx_ptr, ROWS, N, x_row, dx_row, scale, smoothing, ignored,
                         ROWS_EACH: tl.constexpr, BLOCK: tl.constexpr, LOOPS: tl.constexpr, CLUSTER: tl.constexpr,
                         SMOOTH: tl.constexpr):
    """losses, fp32, and dx, which may be None, or x itself."""
    rank = tlx.cluster_cta_rank() if CLUSTER > 1 else 0
    first = rank * (BLOCK * LOOPS)
    rows, rows_inside = own_rows(ROWS, ROWS_EACH, CLUSTER)
    numbers = (tl.program_id(0) // CLUSTER) * ROWS_EACH + tl.arange(0, ROWS_EACH)
    targets = tl.load(targets_ptr + numbers, mask=numbers < ROWS, other=ignored)
    wanted = (targets != ignored)[:, None]
    largests = tl.full((ROWS_EACH, BLOCK), float("-inf"), tl.float32)
    totals = tl.zeros((ROWS_EACH, BLOCK), tl.float32)
    others = tl.zeros((ROWS_EACH, BLOCK), tl.float32)
    owns = tl.zeros((ROWS_EACH, BLOCK), tl.float32)
    for i in range(LOOPS):
        columns, inside = block_of(first, i, rows_inside, N, BLOCK)
        x = read(x_ptr, rows * x_row, columns, inside)
        largests, totals = partial_sums(x, largests, totals)
        owns = tl.where(inside & (columns == targets[:, None]), x, owns)
        if SMOOTH:
            others += tl.where(inside, x, 0.0)
    largest = tl.max(largests, 1)
    total = tl.sum(totals * tl.exp2(largests - finite(largest)[:, None]), 1)
    own, other = tl.sum(owns, 1), tl.sum(others, 1)
    if CLUSTER > 1:
        parts, arrived = tlx.local_alloc((CLUSTER, 2), tl.float32, 2), tlx.alloc_barriers(2)
        row_largest, row_total = row_sum(largest, total, parts[0], arrived[0], 0, rank, CLUSTER)
        largest, total = tl.zeros_like(largest) + row_largest, tl.zeros_like(total) + row_total
        send_statistics(own, other, parts[1], arrived[1], rank, CLUSTER)
        tlx.barrier_wait(arrived[1], 0)
        owns_of_all, others_of_all = tlx.local_load(parts[1]).split()
        own, other = tl.zeros_like(own) + tl.sum(owns_of_all), tl.zeros_like(other) + tl.sum(others_of_all)
    log_total = (finite(largest) + tl.log2(total)) * LN2
    loss = log_total - own * LN2
    if SMOOTH:
        loss = (1 - smoothing) * loss + smoothing * (log_total - other * LN2 / N)
    tl.store(losses_ptr + numbers, tl.where(targets != ignored, loss, 0.0), mask=(numbers < ROWS) & (rank == 0))
    if dx_ptr is not None:
        for i in range(LOOPS):
            columns, inside = block_of(first, i, rows_inside, N, BLOCK)
            x = read(x_ptr, rows * x_row, columns, inside)
            share = tl.where(columns == targets[:, None], 1 - smoothing, 0.0) + smoothing / N
            dx = (tl.exp2(x - finite(largest)[:, None]) * (1 / total)[:, None] - share) * scale
            tl.store(dx_ptr + rows * dx_row + columns, tl.where(wanted, dx, 0.0).to(tlx.dtype_of(dx_ptr)), mask=inside)
