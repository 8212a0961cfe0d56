"""Cross entropy of rows of logits of any length and stride, and the gradient of the logits, which may take the logits' place.

Input: x [ROWS, N], targets [ROWS]. Output: losses [ROWS], the logarithms of the rows' sums lses [ROWS], and dx [ROWS, N], which may
be x itself. For example:

    kernel, grid, args, meta = arguments(x, targets, losses, lses, dx=x, chosen=Configuration("direct", ctas=16, chunk=2048))
    kernel[grid](*args, **meta)

lse = log(sum of exp(x)); loss = lse - x[target] + z lse^2. With smoothing s the target has a share of 1 - s, and s is spread over
all N columns. dx = (softmax(x) (1 + 2 z lse) - share) scale. With a cap, cap tanh(x / cap) stands for x in all of this, and its
slope is a factor of dx. Rows whose target is `ignored` have neither loss nor gradient; of a target outside of the row the loss is
NaN. A number of x is read only by the thread that writes its dx, so nothing is read after it
was overwritten: one read for the sums, and one read, by then of L2, and one write for the gradient.
"""

from collections import namedtuple
from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..norm.blocks import Lines, block_of, zeros_of
from ..norm.exchange import exchange_of, received_pairs, send_pair
from ..softmax.direct import own_part, read
from ..softmax.sums import LN2, LOG2E, finite, row_sum
from .softcap import capped, times_slope

# Rows of x and of dx, N columns each, and the distances of rows.
Shape = namedtuple("Shape", "rows N x_row dx_row")
# Numbers of the loss, as `Loss` has them.
Numbers = namedtuple("Numbers", "scale smoothing z ignored")


@tle.struct
class Loss:
    """Numbers of the loss: the share that is spread over all N columns, the factor of lse^2, the target of rows without a loss, the
    factor of gradients, divided by a count in memory if there is one, and the bound of logits (softcap.py), None for none. SMOOTH:
    something is spread."""
    smoothing: Any
    z: Any
    ignored: Any
    scale: Any
    count: tl.tensor | None
    N: Any
    cap: Any
    SMOOTH: tl.constexpr


@mimw.jit
def partial_sums(x, largests, totals):
    """Each place of a block keeps a maximum and a sum of its own."""
    new = tl.maximum(largests, x)
    return new, totals * tl.exp2(largests - finite(new)) + tl.exp2(x - finite(new))


@mimw.jit
def loss_of(loss, own, other, lse):
    """The loss of a target whose logit is `own`, in units of log2(e) as the sum of all logits `other`."""
    found = lse - own * LN2 + loss.z * lse * lse
    if loss.SMOOTH:
        found += loss.smoothing * (own * LN2 - other * LN2 / loss.N)
    return found


@mimw.jit
def scale_of(loss):
    """The factor of gradients."""
    return loss.scale if loss.count is None else loss.scale / tl.load(loss.count)


@mimw.jit
def loss_with(numbers, count, N, cap, SMOOTH: tl.constexpr):
    """The loss of a launch."""
    return Loss(numbers.smoothing, numbers.z, numbers.ignored, numbers.scale, count, N, cap, SMOOTH)


@mimw.jit
def logits(x, block, cap):
    """A block in units of log2(e), -inf outside."""
    if cap is None:
        return read(x, block)
    raw = tl.load(x.at(block), mask=block.inside, other=0).to(tl.float32)
    return tl.where(block.inside, capped(raw, cap) * LOG2E, float("-inf"))


@mimw.jit
def cross_entropy_direct(x_ptr, targets_ptr, losses_ptr, lses_ptr, dx_ptr, count_ptr, shape, numbers, FORM: tl.constexpr,
                         SMOOTH: tl.constexpr, cap=None):
    """losses and lses, fp32, and dx, which may be None, or x itself."""
    part = own_part(shape.rows, shape.N, FORM)
    rank, rows, span, loss = part.rank, part.rows, part.span, loss_with(numbers, count_ptr, shape.N, cap, SMOOTH)
    own_numbers = (tl.program_id(0) // FORM.CLUSTER) * FORM.ROWS_EACH + tl.arange(0, FORM.ROWS_EACH)
    targets = tl.load(targets_ptr + own_numbers, mask=own_numbers < shape.rows, other=loss.ignored)
    wanted = (targets != loss.ignored)[:, None]
    largests = tl.full((FORM.ROWS_EACH, FORM.BLOCK), float("-inf"), tl.float32)
    totals, others, owns = zeros_of(span), zeros_of(span), zeros_of(span)
    for i in range(FORM.LOOPS):
        block = block_of(span, i)
        x = logits(Lines(x_ptr, rows * shape.x_row), block, loss.cap)
        largests, totals = partial_sums(x, largests, totals)
        owns = tl.where(block.inside & (block.columns == targets[:, None]), x, owns)
        if SMOOTH:
            others += tl.where(block.inside, x, 0.0)
    largest = tl.max(largests, 1)
    total = tl.sum(totals * tl.exp2(largests - finite(largest)[:, None]), 1)
    own, other = tl.sum(owns, 1), tl.sum(others, 1)
    if FORM.CLUSTER > 1:
        exchange = exchange_of(2, rank, FORM.CLUSTER)
        row_largest, row_total = row_sum(exchange.at(0), 0, largest, total)
        largest, total = tl.zeros_like(largest) + row_largest, tl.zeros_like(total) + row_total
        send_pair(exchange.at(1), own, other)
        owns_of_all, others_of_all = received_pairs(exchange.at(1), 0)
        own, other = tl.zeros_like(own) + tl.sum(owns_of_all), tl.zeros_like(other) + tl.sum(others_of_all)
    lse = (finite(largest) + tl.log2(total)) * LN2
    losses = tl.where((targets < 0) | (targets >= shape.N), float("nan"), loss_of(loss, own, other, lse))
    stored = (own_numbers < shape.rows) & (rank == 0)
    tl.store(losses_ptr + own_numbers, tl.where(targets != loss.ignored, losses, 0.0), mask=stored)
    tl.store(lses_ptr + own_numbers, lse, mask=stored)
    if dx_ptr is not None:
        scale = scale_of(loss)
        factor = ((1 + 2 * loss.z * lse) / total)[:, None]
        for i in range(FORM.LOOPS):
            block = block_of(span, i)
            x = logits(Lines(x_ptr, rows * shape.x_row), block, loss.cap)
            share = tl.where(block.columns == targets[:, None], 1 - loss.smoothing, 0.0) + loss.smoothing / shape.N
            dx = (tl.exp2(x - finite(largest)[:, None]) * factor - share) * scale
            dx = times_slope(dx, x * LN2, loss.cap)
            dx_at = Lines(dx_ptr, rows * shape.dx_row).at(block)
            tl.store(dx_at, tl.where(wanted, dx, 0.0).to(tlx.dtype_of(dx_ptr)), mask=block.inside)
