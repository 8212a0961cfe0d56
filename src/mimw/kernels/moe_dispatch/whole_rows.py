"""Rows from the ring to their places, a whole row at a time: another form of `spread` in kernel.py, to be timed beside it.

Input: the ring, and the places of all rows in shared memory. Output: each row at its places. For example, of two warps:

    warp 0      row 0 to places 5 9         row 2 to 7              row 4 ...
    warp 1      row 1 to 0 3 4      row 3 to 8 12

Three things differ. The places of a row are loaded at once, where `spread` loads each behind the copy before, which keeps its
registers until it is taken. What may be on its way is counted in rows: `spread` waits for all but so many copies, of which a row
with four experts here has four. And several warps may take turns, each of which waits for its own copies. A slot is always the
same warp's, as the ring has a multiple of WARPS slots: a warp that had not seen a slot's phase before would take it for over.
"""

import triton
import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx


@mimw.jit
def places_in(own_places, first, K: tl.constexpr):
    """The K numbers of `own_places` from `first` on, and how many of them are places: none is looked at before all are loaded."""
    places, count = (), 0
    for j in tl.static_range(K):
        place = tl.load(tle.gpu.local_ptr(own_places, (first + j, )))
        places, count = places + (place, ), count + (place >= 0).to(tl.int32)
    return places, count


@mimw.jit
def wait_for_all_but(copies, STEP: tl.constexpr, MOST: tl.constexpr):
    """Wait until at most the newest `copies` of the task's copies are on their way: a multiple of STEP, as a wait has to name its
    number, and MOST at most."""
    for kept in tl.static_range(0, MOST, STEP):
        if (copies >= kept) & (copies < kept + STEP):
            tlx.async_descriptor_store_wait(kept)
    if copies >= MOST:
        tlx.async_descriptor_store_wait(MOST)


@mimw.jit
def spread_whole(rows, home, issued, ring, launch, warp, UNREAD: tl.constexpr, GROUP: tl.constexpr, WARPS: tl.constexpr):
    """Rows from the ring to their places, by one of WARPS warps that take turns; a slot is free when its row is UNREAD rows old.
    `issued`, in shared memory, is by slot how many copies the row's warp had started with it."""
    RANKS: tl.constexpr = launch.RANKS
    K: tl.constexpr = launch.K
    STAGES: tl.constexpr = ring.STAGES
    WIDTH: tl.constexpr = triton.next_power_of_2(K)
    COPIES: tl.constexpr = 2 if rows.SCALES else 1      # of a row to a place
    me, n, copies, rounds = tlx.world_rank(launch.world), 0, 0, tl.cdiv(launch.TOKENS, tl.num_programs(0))
    tlx.barrier_wait(home.placed, 0)
    for first in range(0, rounds, GROUP):
        for step in range(RANKS):
            rank = (me + step) % RANKS
            for round in range(first, min(first + GROUP, rounds)):
                places, count = places_in(home.places, (rank * launch.ROUNDS + round) * WIDTH, K)
                if count > 0:
                    if n % WARPS == warp:
                        slot = n % STAGES
                        tlx.barrier_wait(ring.full[slot], (n // STAGES) & 1)
                        for j in tl.static_range(K):
                            if places[j] >= 0:
                                at = places[j].to(tl.int64)
                                tlx.async_store(rows.words + at * rows.WORDS, ring.words[slot], 4 * rows.WORDS)
                                if rows.SCALES:
                                    tlx.async_store(rows.scales + at * rows.SCALES, ring.scales[slot], 4 * rows.SCALES)
                        copies += count * COPIES
                        tl.store(tle.gpu.local_ptr(issued, (slot, )), copies)
                        if n >= UNREAD:
                            old = (n - UNREAD) % STAGES
                            before = tl.load(tle.gpu.local_ptr(issued, (old, )))
                            wait_for_all_but(copies - before, UNREAD // WARPS * COPIES, UNREAD // WARPS * K * COPIES)
                            tlx.barrier_arrive(ring.free[old])
                    n += 1
    tlx.async_descriptor_store_wait(0)
