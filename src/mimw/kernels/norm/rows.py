"""Which cluster takes which row: by number, or drawn from a counter, so that fast SMs take more of them.

Input: a step of a CTA, the same in all CTAs of its cluster. Output: the row of that step, ROWS or more if there is none left. For
example, with one place for the next row's number in each CTA, and as many for its consumers as the ring has slots:

    draw_rows(order, drawn, taken, counter, ROWS, rank, clusters, HEAD, CLUSTER)        one warp of the cluster draws and tells all
    row = next_row(order, drawn, taken, step, HEAD, CLUSTER, ROWS)                      the producer waits for the row of its step
    hand_on(rows, slot, row)                                                            and tells the consumers with the slot

The first HEAD rows of a cluster are those of equal shares, so nobody waits for a number where a launch begins. From then on a
number is drawn when the one before it has found a slot: clusters hold one row more than their rings. Only the producer, which
writes nothing, says that it has taken a number: a consumer would say so behind its stores of y, which its release waits for.
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx


@mimw.jit
def draw(counter, ROWS, first, clusters):
    """The next row from `first` on, ROWS or more if none is left, as each cluster hears once. Whoever draws last puts the counter
    back to 0."""
    drawn = tl.atomic_add(counter, 1, sem="relaxed")
    if drawn == ROWS - first + clusters - 1:
        tl.atomic_xchg(counter, 0, sem="relaxed")
    return first + drawn


@mimw.jit
def draw_rows(order, drawn, taken, counter, ROWS, rank, clusters, HEAD: tl.constexpr, CLUSTER: tl.constexpr):
    """One warp of CTA 0 draws a row for each step from number HEAD on, and writes its number into all CTAs of the cluster."""
    if rank == 0:
        row, step = 0, 0
        while row < ROWS:
            tlx.barrier_wait(taken[0], step & 1)
            row = draw(counter, ROWS, HEAD * clusters, clusters)
            for cta in tl.static_range(CLUSTER):
                tlx.async_remote_shmem_store(order[0], tl.full((1, ), row, tl.int32), cta, drawn[0])
            step += 1


@mimw.jit
def ask_for_row(drawn, taken, CLUSTER: tl.constexpr):
    """This CTA has a place for the next number; one arrival of each CTA, at CTA 0."""
    tlx.barrier_expect_bytes(drawn[0], 4)
    if CLUSTER > 1:
        tlx.barrier_arrive(taken[0], 1, 0)
    else:
        tlx.barrier_arrive(taken[0])


@mimw.jit
def drawn_row(order, drawn, step):
    """The row of drawn step number `step`, once its number is there."""
    tlx.barrier_wait(drawn[0], step & 1)
    return tl.max(tlx.local_load(order[0]), 0)


@mimw.jit
def hand_on(rows, slot, row):
    """Write the row's number for the consumers, who read it behind the arrival of the slot's bytes."""
    tlx.local_store(rows[slot], tl.full((1, ), row, tl.int32))


@mimw.jit
def row_in(rows, full, slot, phase):
    """The row whose part is in a slot, once it is there."""
    tlx.barrier_wait(full[slot], phase)
    return tl.max(tlx.local_load(rows[slot]), 0)
