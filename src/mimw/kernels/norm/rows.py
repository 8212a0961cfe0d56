"""Which cluster takes which row: by number, or drawn from a counter, so that fast SMs take more of them.

Input: a step of a CTA, the same in all CTAs of its cluster. Output: the row of that step, ROWS or more if there is none left. For
example, with a ring of STAGES places for row numbers in each CTA:

    schedule(order, drawn, taken, counter, ROWS, rank, CLUSTER, STAGES, CONSUMERS)      one warp of the cluster draws and tells all
    row = row_of(order, drawn, step, STAGES)                                            a role waits for the row of its step
    took(taken, step, CLUSTER, STAGES)                                                  the place may be used for another row

Steps go to CONSUMERS consumers in turn, and the rows end with CONSUMERS numbers of ROWS or more, one for each of them. STAGES is a
multiple of CONSUMERS, so that a place is always the same consumer's.
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx


@mimw.jit
def draw(counter, ROWS, clusters):
    """The next row, ROWS or more if none is left; the first ones are the clusters' own. Whoever draws last puts the counter back
    to 0."""
    drawn = tl.atomic_add(counter, 1, sem="relaxed")
    if drawn == ROWS - 1:
        tl.atomic_xchg(counter, 0, sem="relaxed")
    return drawn + clusters


@mimw.jit
def schedule(order, drawn, taken, counter, ROWS, rank, cluster, clusters, CLUSTER: tl.constexpr, STAGES: tl.constexpr,
             CONSUMERS: tl.constexpr):
    """One warp of CTA 0 draws a row for each step, and writes its number into all CTAs of the cluster."""
    if rank == 0:
        row, step, ends = cluster, 0, 0
        while ends < CONSUMERS:
            slot = step % STAGES
            tlx.barrier_wait(taken[slot], (step // STAGES & 1) ^ 1)
            for cta in tl.static_range(CLUSTER):
                tlx.async_remote_shmem_store(order[slot], tl.full((1, ), row, tl.int32), cta, drawn[slot])
            if row < ROWS:
                row = draw(counter, ROWS, clusters)
            else:
                ends += 1
            step += 1


@mimw.jit
def row_of(order, drawn, step, STAGES: tl.constexpr):
    """The row of a step, once its number is there."""
    slot = step % STAGES
    tlx.barrier_wait(drawn[slot], step // STAGES & 1)
    return tl.max(tlx.local_load(order[slot]), 0)


@mimw.jit
def took(taken, step, CLUSTER: tl.constexpr, STAGES: tl.constexpr):
    """This CTA needs the number of this step no more; one arrival of each CTA, at CTA 0."""
    if CLUSTER > 1:
        tlx.barrier_arrive(taken[step % STAGES], 1, 0)
    else:
        tlx.barrier_arrive(taken[step % STAGES])
