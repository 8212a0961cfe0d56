"""Where a part of a sequence forgets, in the other direction: what comes behind some chunk has no effect on D before the part.

Input: of each chunk and head the logarithm of a bound of its transition (linear_attention/forgotten.py). Output: the span without
chunks that have no effect. For example, with bounds of -60 a chunk:

    remembered(span, bounds, head, problem)         the first two chunks of a span, from a D of zeros

D before a part comes of each chunk by way of the transitions of all chunks in front of it.
"""

import triton.language as tl

import mimw

from ..linear_attention.forgotten import AT_ONCE, LIMIT


@mimw.jit
def remembered(span, bounds, head, problem):
    """The span up to the first chunk behind which nothing has an effect; all of it where there is none."""
    begin, before, count = 0, 0.0, span.count
    while (begin < span.count) & (count == span.count):
        chunk = begin + tl.arange(0, AT_ONCE)
        place = (span.chunk + tl.minimum(chunk, span.count - 1)).to(tl.int64) * problem.HV + head
        sums = before + tl.cumsum(tl.load(bounds + place, mask=chunk < span.count, other=0.0), 0)
        count = tl.min(tl.where((sums < LIMIT) & (chunk < span.count), chunk + 1, span.count), 0)
        before = tl.min(sums, 0)
        begin += AT_ONCE
    return span.replace(count=count, initial=tl.where(count < span.count, -1, span.initial))
