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

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..norm.blocks import Lines, Span, block_of, zeros_of
from ..norm.exchange import exchange_of, received_pairs, send_pair
from ..softmax.direct import own_rows, read
from ..softmax.sums import LN2, finite, row_sum


@tle.struct
class Loss:
    """The loss: its rule, whose factor of gradients is divided by a count in memory if there is one, and how many columns share
    what is spread. SMOOTH: something is."""
    rule: Any
    count: tl.tensor | None
    N: Any
    SMOOTH: tl.constexpr


@mimw.jit
def partial_sums(x, largests, totals):
    """Each place of a block keeps a maximum and a sum of its own."""
    new = tl.maximum(largests, x)
    return new, totals * tl.exp2(largests - finite(new)) + tl.exp2(x - finite(new))


@mimw.jit
def loss_of(loss, own, other, lse):
    """The loss of a target whose logit is `own`, in units of log2(e) as the sum of all logits `other`."""
    found = lse - own * LN2 + loss.rule.z * lse * lse
    if loss.SMOOTH:
        found += loss.rule.smoothing * (own * LN2 - other * LN2 / loss.N)
    return found


@mimw.jit
def scale_of(loss):
    """The factor of gradients."""
    return loss.rule.scale if loss.count is None else loss.rule.scale / tl.load(loss.count)


@mimw.jit
def cross_entropy_direct(x_ptr, targets_ptr, losses_ptr, lses_ptr, dx_ptr, count_ptr, problem, rule, FORM: tl.constexpr):
    """losses and lses, fp32, and dx, which may be None, or x itself."""
    ROWS_EACH: tl.constexpr = FORM.ROWS_EACH
    BLOCK: tl.constexpr = FORM.BLOCK
    LOOPS: tl.constexpr = FORM.LOOPS
    CLUSTER: tl.constexpr = FORM.CLUSTER
    rank = tlx.cluster_cta_rank() if CLUSTER > 1 else 0
    first = rank * (BLOCK * LOOPS)
    rows, rows_inside = own_rows(problem.ROWS, ROWS_EACH, CLUSTER)
    span = Span(first, rows_inside, problem.N, ROWS_EACH, BLOCK, LOOPS)
    loss = Loss(rule, count_ptr, problem.N, FORM.SMOOTH)
    numbers = (tl.program_id(0) // CLUSTER) * ROWS_EACH + tl.arange(0, ROWS_EACH)
    targets = tl.load(targets_ptr + numbers, mask=numbers < problem.ROWS, other=rule.ignored)
    wanted = (targets != rule.ignored)[:, None]
    largests = tl.full((ROWS_EACH, BLOCK), float("-inf"), tl.float32)
    totals, others, owns = zeros_of(span), zeros_of(span), zeros_of(span)
    for i in range(LOOPS):
        block = block_of(span, i)
        x = read(Lines(x_ptr, rows * problem.x_row), block)
        largests, totals = partial_sums(x, largests, totals)
        owns = tl.where(block.inside & (block.columns == targets[:, None]), x, owns)
        if FORM.SMOOTH:
            others += tl.where(block.inside, x, 0.0)
    largest = tl.max(largests, 1)
    total = tl.sum(totals * tl.exp2(largests - finite(largest)[:, None]), 1)
    own, other = tl.sum(owns, 1), tl.sum(others, 1)
    if CLUSTER > 1:
        exchange = exchange_of(2, rank, CLUSTER)
        row_largest, row_total = row_sum(exchange.at(0), 0, largest, total)
        largest, total = tl.zeros_like(largest) + row_largest, tl.zeros_like(total) + row_total
        send_pair(exchange.at(1), own, other)
        owns_of_all, others_of_all = received_pairs(exchange.at(1), 0)
        own, other = tl.zeros_like(own) + tl.sum(owns_of_all), tl.zeros_like(other) + tl.sum(others_of_all)
    lse = (finite(largest) + tl.log2(total)) * LN2
    losses = tl.where((targets < 0) | (targets >= problem.N), float("nan"), loss_of(loss, own, other, lse))
    stored = (numbers < problem.ROWS) & (rank == 0)
    tl.store(losses_ptr + numbers, tl.where(targets != rule.ignored, losses, 0.0), mask=stored)
    tl.store(lses_ptr + numbers, lse, mask=stored)
    if dx_ptr is not None:
        scale = scale_of(loss)
        factor = ((1 + 2 * rule.z * lse) / total)[:, None]
        for i in range(LOOPS):
            block = block_of(span, i)
            x = read(Lines(x_ptr, rows * problem.x_row), block)
            share = tl.where(block.columns == targets[:, None], 1 - rule.smoothing, 0.0) + rule.smoothing / problem.N
            dx = (tl.exp2(x - finite(largest)[:, None]) * factor - share) * scale
            dx_at = Lines(dx_ptr, rows * problem.dx_row).at(block)
            tl.store(dx_at, tl.where(wanted, dx, 0.0).to(tlx.dtype_of(dx_ptr)), mask=block.inside)
