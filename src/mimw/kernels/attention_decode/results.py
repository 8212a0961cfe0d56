"""Results of finished rows: sinks join the denominators, sums are divided by them and written.

Input: the `Sums` of a tile's rows (nouns.py). Output: logarithms and results. For example:

    logarithm, result = normalized(sums, head, counts, sinks)         rows that saw no key: -inf, or the sink, and 0
"""

import triton.language as tl

import mimw

from ..attention.softmax import LN2, LOG2_E
from .nouns import row_at


@mimw.jit
def normalized(sums, head, counts, sinks):
    """(natural logarithms of the denominators, results) of rows of these heads."""
    highest, total, acc = sums.highest, sums.total, sums.acc
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
def write(sums, batch, tile, results, problem, WIDTH: tl.constexpr):
    """O and lse of a tile's rows."""
    packed, column = tl.arange(0, sums.acc.shape[0]), tl.arange(0, sums.acc.shape[1])
    query, head = packed // problem.group, tile * problem.group + packed % problem.group
    counts = packed < problem.queries * problem.group
    logarithm, result = normalized(sums, head, counts, results.sinks)
    if results.v_scale is not None:
        result *= tl.load(results.v_scale + tile * results.step)
    o, place = results.o, row_at(results.o, batch, query, head)
    tl.store(o.data + place[:, None] + column[None, :], result.to(o.data.dtype.element_ty),
             mask=counts[:, None] & (column < WIDTH)[None, :])
    tl.store(results.lse + (batch * problem.heads + head).to(tl.int64) * problem.queries + query, logarithm, mask=counts)
