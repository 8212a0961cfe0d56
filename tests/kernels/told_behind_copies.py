"""A task that tells the other GPU while another task of its program copies: what a release of system scope waits for.

Input: memory of each rank, a word for each, a world; how many copies and signals. Output: each has told the other. For example:

    copies      copy copy copy ..........
    tells                                signal signal      behind the copies, which are the other task's

Shapes: y (COPIES N) int32, flag one int32, symmetric; N is a power of two. No mistake can be planted.
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx


@mimw.jit
def told_behind_copies(y, flag, world, N: tl.constexpr, COPIES: tl.constexpr, SIGNALS: tl.constexpr):
    tile, started, me = tlx.local_alloc((N, ), tl.int32, 1), tlx.alloc_barriers(1), tlx.world_rank(world)
    tlx.local_store(tile[0], tl.zeros((N, ), tl.int32))
    tlx.fence("async_shared")
    with tlx.async_tasks():
        with tlx.async_task("default"):             # copies
            for i in range(COPIES):
                tlx.async_store(y + i * N, tile[0], 4 * N)
            tlx.barrier_arrive(started)
            tlx.async_descriptor_store_wait(0)
        with tlx.async_task(num_warps=1):           # tells
            tlx.barrier_wait(started, 0)
            for _ in range(SIGNALS):
                tlx.signal(tlx.peer_pointer(flag, 1 - me, world))
            tlx.wait_signal(flag, SIGNALS)
