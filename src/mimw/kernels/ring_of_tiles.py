"""A ring of tiles whose barriers a kernel waits for itself: for copies that no pipe makes.

Input: buffers and barriers. Output: one value that the roles share. For example:

    ring = Ring(a_tiles, b_tiles, tlx.alloc_barriers(STAGES), tlx.alloc_barriers(STAGES), STAGES)
    tlx.barrier_wait(ring.full[slot], phase)        the tiles ring.a[slot] and ring.b[slot] are there
"""

import triton.language as tl

import mimw.tle as tle
import mimw.tlx as tlx


@tle.struct
class Ring:
    """STAGES tiles of A and of B, and the barriers by which they are filled and given back."""
    a: tlx.buffered_tensor
    b: tlx.buffered_tensor
    full: tlx.mbarrier
    free: tlx.mbarrier
    STAGES: tl.constexpr
