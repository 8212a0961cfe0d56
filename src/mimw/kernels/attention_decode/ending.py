"""What becomes of finished rows: sinks join the denominators, sums become results.

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
