"""The producer of the gradients of norms: parts of x, dy and of a gradient more into the ring, with the numbers of their rows.

Input: matrices [ROWS, N], means and 1 / deviations [ROWS]. Output: filled slots. For example:

    load(w, w_arrived, stats, (x, dy, more), tiles, rows, ring, part)
    slot = taken_slot(ring, turn, me)                   a consumer has its block's parts there,
    moments = moments_of(tiles, slot, rows.EACH)        and the numbers of its rows
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx

from ..norm.ring import bytes_of, copy_rows, expect_rows, start_part
from .chunks import Moments


@mimw.jit
def of_rows(pointer, first_row, EACH: tl.constexpr):
    """One number of each of EACH rows; none where `pointer` is None."""
    found = ()
    if pointer is not None:
        for i in tl.static_range(EACH):
            found = found + (tl.load(pointer + first_row + i), )
    return found


@mimw.jit
def write_numbers(numbers, buffers, slot):
    """Write a tuple of numbers into a slot."""
    for i in tl.static_range(len(numbers)):
        tlx.local_store(buffers[slot * len(numbers) + i], tl.full((1, ), numbers[i], tl.float32))


@mimw.jit
def moments_of(tiles, slot, EACH: tl.constexpr):
    """The numbers of a slot's rows."""
    means, rstds = (), ()
    for i in tl.static_range(EACH):
        rstds = rstds + (tl.sum(tlx.local_load(tiles.rstd[slot * EACH + i]), 0), )
        if tiles.mean is not None:
            means = means + (tl.sum(tlx.local_load(tiles.mean[slot * EACH + i]), 0), )
    return Moments(means, rstds, tiles.mean is not None)


@mimw.jit
def load(w, w_arrived, stats, matrices, tiles, rows, ring, part):
    """This CTA's parts of its blocks of rows, in order; w ahead of them. The numbers of each row go with it: if consumers loaded
    them, even a block ahead, they would wait for them at once, since ptxas takes them into registers of the whole warp."""
    if w is not None:
        tlx.barrier_expect_bytes(w_arrived[0], part.CHUNK * part.CHUNKS * bytes_of((w, )))
        start_part(part, w, tiles.w, 0, w_arrived[0])
    step = 0
    for block in range(rows.cluster, rows.count, rows.clusters):
        slot = step % ring.STAGES
        # Asked for ahead of the wait and of the copies, behind which they would queue; what is copied does not wait for them.
        means, rstds = of_rows(stats.mean, block * rows.EACH, rows.EACH), of_rows(stats.rstd, block * rows.EACH, rows.EACH)
        tlx.barrier_wait(ring.free[slot], (step // ring.STAGES & 1) ^ 1)
        copy_rows(matrices, (tiles.x, tiles.dy, tiles.more), block * rows.EACH, slot, ring.full, part, rows.EACH)
        if stats.mean is not None:
            write_numbers(means, tiles.mean, slot)
        write_numbers(rstds, tiles.rstd, slot)
        expect_rows(matrices, slot, ring.full, part, rows.EACH)
        step += 1
