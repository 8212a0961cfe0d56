"""Where a part of a sequence forgets: what came before it, or before some chunk of it, has no effect on the state behind it.

Input: of each chunk and head the logarithm of a bound of its transition. Output: the span without chunks that have no effect. For
example, with bounds of -60 a chunk:

    remembered(span, bounds, head, problem)         the last two chunks of a span, from a state of zeros
    forgets(span, bounds, head, problem)            True for spans of two chunks and more

The transition of a row is e^g (I - beta k k^T), whose norm is at most e^g max(1, |1 - beta k.k|), with gates by key with the
largest e^g; without beta that of a chunk is e^b_C, its largest. Where the product of such bounds is below e^LIMIT, about the
smallest number of fp32, the state before leaves nothing behind, if it is of numbers up to 1. NaN and infinities that are forgotten
do not come back, either, as they would in a sequence of one part.
"""

import triton.language as tl

import mimw

from .nouns import C, Span

LIMIT = tl.constexpr(-104.0)
AT_ONCE = tl.constexpr(128)     # chunks


@mimw.jit
def growth(squares, weight):
    """The sum of the logarithms of max(1, |1 - beta k.k|) over a chunk's rows."""
    return tl.sum(tl.log(tl.maximum(tl.abs(1.0 - squares * weight), 1.0)), 0)


@mimw.jit
def sums_to_the_end(span, bounds, head, problem, end, behind):
    """(of the AT_ONCE chunks in front of number `end` of a span the sums of bounds up to the span's end, their numbers), where
    those from `end` on have the sum `behind`; 0 for chunks in front of the span."""
    chunk = end - AT_ONCE + tl.arange(0, AT_ONCE)
    place = (span.chunk + tl.maximum(chunk, 0)).to(tl.int64) * problem.HV + head
    bound = tl.load(bounds + place, mask=chunk >= 0, other=0.0)
    total = tl.sum(bound, 0)
    return behind + total - tl.cumsum(bound, 0) + bound, chunk, behind + total


@mimw.jit
def remembered(span, bounds, head, problem):
    """The span from the last chunk on before which nothing has an effect; all of it where there is none."""
    end, behind, start = span.count, 0.0, -1
    while end > 0 and start < 0:
        sums, chunk, behind = sums_to_the_end(span, bounds, head, problem, end, behind)
        start = tl.max(tl.where((sums < LIMIT) & (chunk >= 0), chunk, -1), 0)
        end -= AT_ONCE
    skipped = tl.maximum(start, 0)
    initial = tl.where(start >= 0, -1, span.initial)
    return Span(span.first + skipped * C, span.end, span.chunk + skipped, span.count - skipped, initial, span.final)


@mimw.jit
def forgets(span, bounds, head, problem):
    """True where the state before a span leaves nothing behind it."""
    end, behind = span.count, 0.0
    while end > 0:
        _, _, behind = sums_to_the_end(span, bounds, head, problem, end, behind)
        end -= AT_ONCE
    return behind < LIMIT
