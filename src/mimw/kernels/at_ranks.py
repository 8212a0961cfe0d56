"""Where a symmetric array lies at the ranks of a world.

Input: a pointer into a symmetric array. Output: the same at each rank, to be used in a loop. For example, of three ranks:

    there = at_ranks(flags, 1, world, 3)        (at the next rank, at the one behind it)
    for n in range(rounds):
        tlx.signal(there[0])
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx


@mimw.jit
def at_ranks(array, first, world, RANKS: tl.constexpr):
    """`array` at each rank from `first` behind this one on. The way there is looked up before the loop: inside it that takes a
    microsecond, as what waits for signals empties the first-level cache."""
    me, there = tlx.world_rank(world), ()
    for step in tl.static_range(first, RANKS):
        there = there + (tlx.peer_pointer(array, (me + step) % RANKS, world), )
    return there
