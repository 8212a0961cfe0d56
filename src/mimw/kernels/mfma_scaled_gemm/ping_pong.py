"""Eight waves that take turns: of the two on each SIMD one multiplies while the other reads and copies.

Input: streams of a tile's operands, and steps along K. Output: sums of the upper and the lower half of the tile. For example:

    upper, lower = multiply(a_upper, a_lower, b, scales_a, scales_b, steps, form)

A step has four stages, `read, multiply, read, multiply`, one pair for each half of the rows; B is read with the upper half and
kept. Each half of the waves is one stage behind the other one, so a slot may be filled again two stages after it was read, and what
a stage waits for is there two stages on:

    stage           reads of step k         copies                          of
    read upper      A upper, B              A lower, scales of A            step k + 1
    read lower      A lower                 A upper, B, scales of B         step k + 2

Behind the second pair of reads all copies of step k + 1 have landed; those of step k + 2 stay in flight.
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx

from .layouts import of_sums
from .nouns import STAGES
from .operands import factors, numbers
from .streams import copy


@mimw.jit
def multiply(a_upper, a_lower, b, scales_a, scales_b, steps, form):
    """The sums of the halves, BM / 2 x BN each."""
    SUMS: tl.constexpr = of_sums(form.warps(), form.SIDE, form.SHUFFLED)
    upper = tlx.zeros((form.BM // 2, form.BN), tl.float32, layout=SUMS)
    lower = tlx.zeros((form.BM // 2, form.BN), tl.float32, layout=SUMS)
    first = (a_upper, b, scales_b)
    second = (a_lower, scales_a)
    start(first, 0, steps)
    start(second, 0, steps)
    start(first, 1, steps)
    tlx.async_load_wait_group(1)
    for k in tl.range(0, steps):
        slot = k % STAGES
        with tlx.warp_pipeline_stage("read upper", priority=0):
            x, x_scales = numbers(a_upper, slot, 0, SUMS), factors(scales_a, slot, 0, 0, form.BM // 2, form)
            y, y_scales = numbers(b, slot, 1, SUMS), factors(scales_b, slot, 1, 0, form.BN, form)
            start(second, k + 1, steps)
        with tlx.warp_pipeline_stage("multiply upper", priority=1):
            upper = tl.dot_scaled(x, x_scales, form.A_FORMAT, y, y_scales, form.B_FORMAT, upper)
        with tlx.warp_pipeline_stage("read lower", priority=0):
            x, x_scales = numbers(a_lower, slot, 0, SUMS), factors(scales_a, slot, 0, 1, form.BM // 2, form)
            start(first, k + 2, steps)
        tlx.async_load_wait_group(1)
        with tlx.warp_pipeline_stage("multiply lower", priority=1):
            lower = tl.dot_scaled(x, x_scales, form.A_FORMAT, y, y_scales, form.B_FORMAT, lower)
    tlx.async_load_wait_group(0)
    return upper, lower


@mimw.jit
def start(streams, number, steps):
    """Start the copies of a step; behind the last step it is the last one again, which nobody reads."""
    for index in tl.static_range(len(streams)):
        copy(streams[index], number % STAGES, min(number, steps - 1))
    tlx.async_load_commit_group()
