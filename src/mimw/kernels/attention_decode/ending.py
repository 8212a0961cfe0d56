"""What becomes of finished rows: sinks join the denominators, sums become results, which are written.

Input: a tile's highest scores in base 2, its sums of probabilities and of p V. Output: logarithms and results. For example:

    logarithm, result = ended(highest, total, acc, head, counts, sinks)         rows that saw no key: -inf, or the sink, and 0
"""

import triton.language as tl

import mimw

from ..attention.softmax import LN2, LOG2_E


@mimw.jit
def ended(highest, total, acc, head, counts, sinks):
    """(natural logarithms of the denominators, results) of rows of these heads."""
    if sinks is not None:
        sink = tl.load(sinks + head, mask=counts, other=float("-inf")) * LOG2_E
        before, highest = highest, tl.maximum(highest, sink)
        base = tl.where(highest == float("-inf"), 0.0, highest)
        shrink = tl.exp2(before - base)
        total = total * shrink + tl.exp2(sink - base)
        acc = acc * shrink[:, None]
    inverse = 1 / tl.where(total == 0.0, 1.0, total)
    return (highest + tl.log2(total)) * LN2, acc * inverse[:, None]


@mimw.jit
def write(highest, total, acc, batch, tile, o, o_steps, lse, sinks, v_scale, scale_step, group, heads, shape, WIDTH: tl.constexpr):
    """O and lse of a tile's rows."""
    packed, column = tl.arange(0, acc.shape[0]), tl.arange(0, acc.shape[1])
    query, head = packed // group, tile * group + packed % group
    counts = packed < shape[2] * group
    logarithm, result = ended(highest, total, acc, head, counts, sinks)
    if v_scale is not None:
        result *= tl.load(v_scale + tile * scale_step)
    place = batch.to(tl.int64) * o_steps[0] + query.to(tl.int64) * o_steps[1] + head.to(tl.int64) * o_steps[2]
    tl.store(o + place[:, None] + column[None, :], result.to(o.dtype.element_ty),
             mask=counts[:, None] & (column < WIDTH)[None, :])
    tl.store(lse + (batch * heads + head).to(tl.int64) * shape[2] + query, logarithm, mask=counts)
