"""The denominator of a softmax whose row is spread over several CTAs: each sends its maximum and its sum to all others.

Input: the exponents of a CTA's part, largest and sum. Output: those of the row, in each CTA of the cluster. For example:

    largest, total = part_sum(xs)                                       sum of exp(x - largest) of this CTA's columns
    largest, total = row_sum(exchange.at(place), phase, largest, total)

All x are in units of log2(e): exp(x) is 2^(x log2(e)), which is one instruction. A part of -inf alone counts from 0 on, so that it
adds nothing; a row of nothing else is NaN throughout, as in torch.
"""

import triton.language as tl

import mimw

from ..norm.exchange import received_pairs, send_pair
from ..norm.statistics import added

LOG2E = tl.constexpr(1.4426950408889634)
LN2 = tl.constexpr(0.6931471805599453)


@mimw.jit
def finite(largest):
    """The number that exponents are taken from: 0 where all are -inf."""
    return tl.where(largest == float("-inf"), 0.0, largest)


@mimw.jit
def part_sum(xs):
    """(largest, sum of 2^(x - largest), the summands) of a tuple of tiles, which have -inf outside of the row."""
    highest = xs[0]
    for i in tl.static_range(1, len(xs)):
        highest = tl.maximum(highest, xs[i])
    largest = tl.max(highest)
    powers = ()
    for i in tl.static_range(len(xs)):
        powers = powers + (tl.exp2(xs[i] - finite(largest)), )
    return largest, tl.sum(added(powers)), powers


@mimw.jit
def row_sum(place, phase, largest, total):
    """(largest, sum) of the whole row."""
    send_pair(place, largest, total)
    largests, totals = received_pairs(place, phase)
    largest = tl.max(largests)
    return largest, tl.sum(totals * tl.exp2(largests - finite(largest)))
