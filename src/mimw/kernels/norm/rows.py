"""Which cluster takes which row: by number, or stolen from a counter, so that fast SMs take more of them.

Input: a step of a CTA, the same in all CTAs of its cluster. Output: the row of that step, ROWS or more if there is none left. For
example, with one place for the next row's number in each CTA, and as many for its consumers as the ring has slots:

    queue = queue_of(HEAD, STAGES, CLUSTER)
    steal_rows(queue, counter, rows, rank)          one warp of the cluster steals and sends each number to all
    row = stolen_row(queue, step - HEAD)            the producer waits for the row of its step
    hand_on(queue, slot, row)                       and leaves it for the consumers with the slot
    row = row_in(queue, ring, slot, phase)          who read it there

The first HEAD rows of a cluster are those of equal shares, so nobody waits for a number where a launch begins. From then on a
number is stolen when the one before it has found a slot: clusters hold one row more than their rings. Only the producer, which
writes nothing, says that it has taken a number: a consumer would say so behind its stores of y, which its release waits for.
"""

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx


@tle.struct
class Queue:
    """The next row's number, the barriers of its coming and going, and the numbers of the rows in the slots; None where HEAD is 0,
    which says that nobody steals."""
    next: tlx.buffered_tensor | None
    arrived: tlx.mbarrier | None
    taken: tlx.mbarrier | None
    in_slots: tlx.buffered_tensor | None
    HEAD: tl.constexpr
    CLUSTER: tl.constexpr


@mimw.jit
def queue_of(HEAD: tl.constexpr, STAGES: tl.constexpr, CLUSTER: tl.constexpr):
    """The places of the numbers."""
    queue = Queue(None, None, None, None, HEAD, CLUSTER)
    if HEAD > 0:
        queue = Queue(tlx.local_alloc((1, ), tl.int32, 1), tlx.alloc_barriers(1), tlx.alloc_barriers(1, CLUSTER),
                      tlx.local_alloc((1, ), tl.int32, STAGES), HEAD, CLUSTER)
    return queue


@mimw.jit
def steal(counter, rows, first):
    """The next row from `first` on, rows.count or more if none is left, as each cluster hears once. Whoever steals last puts the
    counter back to 0."""
    stolen = tl.atomic_add(counter, 1, sem="relaxed")
    if stolen == rows.count - first + rows.clusters - 1:
        tl.atomic_xchg(counter, 0, sem="relaxed")
    return first + stolen


@mimw.jit
def steal_rows(queue, counter, rows, rank):
    """One warp of CTA 0 steals a row for each step from number HEAD on, and writes its number into all CTAs of the cluster."""
    if rank == 0:
        row, step = 0, 0
        while row < rows.count:
            tlx.barrier_wait(queue.taken[0], step & 1)
            row = steal(counter, rows, queue.HEAD * rows.clusters)
            for cta in tl.static_range(queue.CLUSTER):
                tlx.async_remote_shmem_store(queue.next[0], tl.full((1, ), row, tl.int32), cta, queue.arrived[0])
            step += 1


@mimw.jit
def ask_for_row(queue):
    """This CTA has a place for the next number; one arrival of each CTA, at CTA 0."""
    tlx.barrier_expect_bytes(queue.arrived[0], 4)
    if queue.CLUSTER > 1:
        tlx.barrier_arrive(queue.taken[0], 1, 0)
    else:
        tlx.barrier_arrive(queue.taken[0])


@mimw.jit
def stolen_row(queue, step):
    """The row of stolen step number `step`, once its number is there."""
    tlx.barrier_wait(queue.arrived[0], step & 1)
    return tl.max(tlx.local_load(queue.next[0]), 0)


@mimw.jit
def hand_on(queue, slot, row):
    """Write the row's number for the consumers, who read it behind the arrival of the slot's bytes."""
    tlx.local_store(queue.in_slots[slot], tl.full((1, ), row, tl.int32))


@mimw.jit
def row_in(queue, ring, slot, phase):
    """The row whose part is in a slot, once it is there."""
    tlx.barrier_wait(ring.full[slot], phase)
    return tl.max(tlx.local_load(queue.in_slots[slot]), 0)
