"""Four waves, one on each SIMD with 512 registers a lane: reads and copies stand between the products of a tile's quarters.

Input: streams of the halves of a tile's operands, and steps along K. Output: the sums of the quarters. For example:

    upper_left, upper_right, lower_left, lower_right = multiply(a_parts, b_parts, scales_a, scales_b, steps, form)

While a quarter is multiplied, the operand that the next one lacks is read; the halves that the next step begins with are read
below the last two quarters. Waves meet twice a step: when the first halves have been read, and when the second ones have; behind
each meeting the slot of what has been read is filled with what comes two steps on.
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx

from .layouts import of_sums
from .nouns import STAGES
from .operands import factors, numbers
from .ping_pong import start


@mimw.jit
def multiply(a_upper, a_lower, b_left, b_right, scales_a, scales_b, steps, form):
    """The sums of the quarters, BM / 2 x BN / 2 each."""
    SUMS: tl.constexpr = of_sums(form.warps(), form.SIDE, form.SHUFFLED)
    upper_left = tlx.zeros((form.BM // 2, form.BN // 2), tl.float32, layout=SUMS)
    upper_right = tlx.zeros((form.BM // 2, form.BN // 2), tl.float32, layout=SUMS)
    lower_left = tlx.zeros((form.BM // 2, form.BN // 2), tl.float32, layout=SUMS)
    lower_right = tlx.zeros((form.BM // 2, form.BN // 2), tl.float32, layout=SUMS)
    first = (a_upper, b_left)
    second = (a_lower, b_right, scales_a, scales_b)
    for number in tl.static_range(STAGES):
        start(first, number, steps)
        start(second, number, steps)
    tlx.async_load_wait_group(2)
    u, u_scales = numbers(a_upper, 0, 0, SUMS), factors(scales_a, 0, 0, 0, form.BM // 2, form)
    x, x_scales = numbers(b_left, 0, 1, SUMS), factors(scales_b, 0, 1, 0, form.BN // 2, form)
    for k in tl.range(0, steps):
        slot, next_slot = k % STAGES, (k + 1) % STAGES
        start(first, k + 2, steps)
        y, y_scales = numbers(b_right, slot, 1, SUMS), factors(scales_b, slot, 1, 1, form.BN // 2, form)
        upper_left = tl.dot_scaled(u, u_scales, form.A_FORMAT, x, x_scales, form.B_FORMAT, upper_left)
        v, v_scales = numbers(a_lower, slot, 0, SUMS), factors(scales_a, slot, 0, 1, form.BM // 2, form)
        upper_right = tl.dot_scaled(u, u_scales, form.A_FORMAT, y, y_scales, form.B_FORMAT, upper_right)
        tlx.async_load_wait_group(1)
        start(second, k + 2, steps)
        u, u_scales = numbers(a_upper, next_slot, 0, SUMS), factors(scales_a, next_slot, 0, 0, form.BM // 2, form)
        lower_left = tl.dot_scaled(v, v_scales, form.A_FORMAT, x, x_scales, form.B_FORMAT, lower_left)
        x, x_scales = numbers(b_left, next_slot, 1, SUMS), factors(scales_b, next_slot, 1, 0, form.BN // 2, form)
        lower_right = tl.dot_scaled(v, v_scales, form.A_FORMAT, y, y_scales, form.B_FORMAT, lower_right)
    tlx.async_load_wait_group(0)
    return upper_left, upper_right, lower_left, lower_right
