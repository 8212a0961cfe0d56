"""Cross entropy of rows of logits of any length and stride, and the gradient of the logits, which may take the logits' place.

Input: x [ROWS, N], targets [ROWS]. Output: losses [ROWS], the logarithms of the rows' sums lses [ROWS], and dx [ROWS, N], which may
be x itself. For example:

    kernel, grid, args, meta = arguments(x, targets, losses, lses, dx=x, chosen=Configuration("direct", ctas=16, chunk=2048))
    kernel[grid](*args, **meta)

lse = log(sum of exp(x)); loss = lse - x[target] + z lse^2. With smoothing s the target has a share of 1 - s, and s is spread over
all N columns. dx = (softmax(x) (1 + 2 z lse) - share) scale. Rows whose target is `ignored` have neither loss nor gradient; of a
target outside of the row the loss is NaN. A number of x is read only by the thread that writes its dx, so nothing is read after it
was overwritten: one read for the sums, and one read, by then of L2, and one write for the gradient.
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx

from ..norm.statistics import send_statistics
from ..softmax.direct import block_of, own_rows, read
from ..softmax.sums import LN2, finite, row_sum


@mimw.jit
def partial_sums(x, largests, totals):
    """Each place of a block keeps a maximum and a sum of its own."""
    new = tl.maximum(largests, x)
    return new, totals * tl.exp2(largests - finite(new)) + tl.exp2(x - finite(new))


@mimw.jit
def loss_of(own, other, lse, N, smoothing, z, SMOOTH: tl.constexpr):
    """The loss of a target whose logit is `own`, in units of log2(e) as the sum of all logits `other`."""
    loss = lse - own * LN2 + z * lse * lse
    if SMOOTH:
        loss += smoothing * (own * LN2 - other * LN2 / N)
    return loss


@mimw.jit
def scale_of(scale, count_ptr):
    """What gradients are multiplied with: divided by a number in memory, if there is one."""
    return scale if count_ptr is None else scale / tl.load(count_ptr)


@mimw.jit
def cross_entropy_direct(x_ptr, targets_ptr, losses_ptr, lses_ptr, dx_ptr, count_ptr, ROWS, N, x_row, dx_row, scale, smoothing, z,
                         ignored, ROWS_EACH: tl.constexpr, BLOCK: tl.constexpr, LOOPS: tl.constexpr, CLUSTER: tl.constexpr,
                         SMOOTH: tl.constexpr):
    """losses and lses, fp32, and dx, which may be None, or x itself."""
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
    lse = (finite(largest) + tl.log2(total)) * LN2
    loss = tl.where((targets < 0) | (targets >= N), float("nan"), loss_of(own, other, lse, N, smoothing, z, SMOOTH))
    stored = (numbers < ROWS) & (rank == 0)
    tl.store(losses_ptr + numbers, tl.where(targets != ignored, loss, 0.0), mask=stored)
    tl.store(lses_ptr + numbers, lse, mask=stored)
    if dx_ptr is not None:
        scale = scale_of(scale, count_ptr)
        factor = ((1 + 2 * z * lse) / total)[:, None]
        for i in range(LOOPS):
            columns, inside = block_of(first, i, rows_inside, N, BLOCK)
            x = read(x_ptr, rows * x_row, columns, inside)
            share = tl.where(columns == targets[:, None], 1 - smoothing, 0.0) + smoothing / N
            dx = (tl.exp2(x - finite(largest)[:, None]) * factor - share) * scale
            tl.store(dx_ptr + rows * dx_row + columns, tl.where(wanted, dx, 0.0).to(tlx.dtype_of(dx_ptr)), mask=inside)
