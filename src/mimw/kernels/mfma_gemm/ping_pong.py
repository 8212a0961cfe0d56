"""The main loop of eight waves: one half reads and copies while the other multiplies.

Input: the operands of a tile in LDS. Output: the sums of its upper and its lower half. For example, of a trip of the loop:

    stage       the first half of the waves     the second half
    1           reads a 0 and b, copies a 1     multiplies a 1 b of the trip before
    2           multiplies a 0 b                reads a 0 and b, copies a 1
    3           reads a 1, copies a 0 and b     multiplies a 0 b
    4           multiplies a 1 b                reads a 1, copies a 0 and b

On each SIMD there is a wave of either half, so its matrix core is always one's. What is read in a stage is free for copies two
stages on, when the other half has read it, too. A copy has a whole trip to land, and one more for each slot beyond two. What a
stage reads and what it copies lie in buffers of their own: for one buffer the compiler would put a barrier between the two, where
the other half has none.
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx

from .product import kept, product
from .sums import sums_of


@mimw.jit
def ping_pong(a, b, steps, FORM: tl.constexpr):
    """[A's first rows times B, the other rows times B], of `steps` chunks of K."""
    AHEAD: tl.constexpr = FORM.a.STAGES - 1
    UNDER_WAY: tl.constexpr = 2 * AHEAD
    for chunk in tl.static_range(AHEAD):
        copy_first(a, b, chunk)
        copy_second(a, chunk)
    copy_first(a, b, AHEAD)
    upper, lower = sums_of(FORM, FORM.BM // 2, FORM.BN), sums_of(FORM, FORM.BM // 2, FORM.BN)
    tlx.async_load_wait_group(UNDER_WAY)
    for chunk in tl.range(0, steps):
        with tlx.warp_pipeline_stage("read the first rows", priority=0):
            x, y = a.read(0, chunk), b.read(0, chunk)
            copy_second(a, chunk + AHEAD)
        tlx.async_load_wait_group(UNDER_WAY)
        with tlx.warp_pipeline_stage("multiply the first rows", priority=1):
            upper = product(x, y, upper, FORM)
        with tlx.warp_pipeline_stage("read the other rows", priority=0):
            x = a.read(1, chunk)
            copy_first(a, b, chunk + AHEAD + 1)
        tlx.async_load_wait_group(UNDER_WAY)
        with tlx.warp_pipeline_stage("multiply the other rows", priority=1):
            lower = product(x, y, lower, FORM)
    tlx.async_load_wait_group(0)
    return kept(upper, FORM), kept(lower, FORM)


@mimw.jit
def copy_first(a, b, chunk):
    """Start the copies that the first stage of a trip reads, as a group."""
    a.copy(0, chunk)
    b.copy(0, chunk)
    tlx.async_load_commit_group()


@mimw.jit
def copy_second(a, chunk):
    """Start those that the third stage reads."""
    a.copy(1, chunk)
    tlx.async_load_commit_group()
