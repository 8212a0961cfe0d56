"""The main loop of four waves, one on each SIMD with all its 512 registers: a quarter of the tile is multiplied while the next
operand is read and another one copied.

Input: the operands of a tile in LDS. Output: the sums of its four quarters. For example, the four phases of a trip:

    multiplies      reads                   copies, STAGES trips ahead
    a 0 b 0         b 1                     a 0
    a 0 b 1         a 1                     b 0
    a 1 b 1         a 0 of the next trip    b 1
    a 1 b 0         b 1 of the next trip    a 1

No product waits for what is read beside it, and from one product to the next one operand stays. The next trip has b 1 and b 0 in
each other's places: what is read then always replaces what was multiplied last, and no register is copied. So a trip of the loop
is two of these, the last of which may multiply zeros. What is copied over was read two phases before; a copy has 4 STAGES - 2
phases to land.
"""

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from .product import kept, product
from .sums import sums_of


@tle.struct
class Quarters:
    """Sums of the quarters of a tile."""
    upper_left: tl.tensor
    upper_right: tl.tensor
    lower_left: tl.tensor
    lower_right: tl.tensor

    @mimw.jit
    def store(self, out, BM: tl.constexpr, BN: tl.constexpr):
        out.store(self.upper_left, 0, 0)
        out.store(self.upper_right, 0, BN // 2)
        out.store(self.lower_left, BM // 2, 0)
        out.store(self.lower_right, BM // 2, BN // 2)


@mimw.jit
def interleave(a, b, chunks, FORM: tl.constexpr):
    """The quarters of a tile, sums of `chunks` chunks of K."""
    STAGES: tl.constexpr = FORM.a.STAGES
    tl.static_assert(STAGES % 2 == 0)
    for chunk in tl.static_range(STAGES):
        copy(a, 0, chunk)
        copy(b, chunk % 2, chunk)
        copy(b, 1 - chunk % 2, chunk)
        copy(a, 1, chunk)
    M: tl.constexpr = FORM.BM // 2
    N: tl.constexpr = FORM.BN // 2
    sums = Quarters(sums_of(FORM, M, N), sums_of(FORM, M, N), sums_of(FORM, M, N), sums_of(FORM, M, N))
    tlx.async_load_wait_group(4 * STAGES - 2)
    x, y = a.read(0, 0), b.read(0, 0)
    for chunk in tl.range(0, chunks, 2):
        x, y, upper_left, upper_right, lower_left, lower_right = trip(
            a, b, chunk, 0, x, y, sums.upper_left, sums.upper_right, sums.lower_left, sums.lower_right, FORM)
        x, y, upper_right, upper_left, lower_right, lower_left = trip(
            a, b, chunk + 1, 1, x, y, upper_right, upper_left, lower_right, lower_left, FORM)
        sums = Quarters(upper_left, upper_right, lower_left, lower_right)
    tlx.async_load_wait_group(0)
    return Quarters(kept(sums.upper_left, FORM), kept(sums.upper_right, FORM), kept(sums.lower_left, FORM),
                    kept(sums.lower_right, FORM))


@mimw.jit
def trip(a, b, chunk, FIRST: tl.constexpr, x, y, upper_first, upper_other, lower_first, lower_other, FORM: tl.constexpr):
    """Four phases, from part FIRST of B on; x and y are part 0 of A and that part of B. Returns what the next trip begins with, and
    sums."""
    OTHER: tl.constexpr = 1 - FIRST
    STAGES: tl.constexpr = FORM.a.STAGES
    begin_phase(STAGES)
    other = b.read(OTHER, chunk)
    copy(a, 0, chunk + STAGES)
    upper_first = product(x, y, upper_first, FORM)
    begin_phase(STAGES)
    lower = a.read(1, chunk)
    copy(b, FIRST, chunk + STAGES)
    upper_other = product(x, other, upper_other, FORM)
    begin_phase(STAGES)
    x = a.read(0, chunk + 1)
    copy(b, OTHER, chunk + STAGES)
    lower_other = product(lower, other, lower_other, FORM)
    begin_phase(STAGES)
    other = b.read(OTHER, chunk + 1)
    copy(a, 1, chunk + STAGES)
    lower_first = product(lower, y, lower_first, FORM)
    return x, other, upper_first, upper_other, lower_first, lower_other


@mimw.jit
def begin_phase(STAGES: tl.constexpr):
    """Wait for the copies that this phase reads; the compiler moves nothing from one phase into another."""
    tlx.amd_sched_barrier(0)
    tlx.async_load_wait_group(4 * STAGES - 3)


@mimw.jit
def copy(side, part: tl.constexpr, chunk):
    """A part as a group of its own."""
    side.copy(part, chunk)
    tlx.async_load_commit_group()
