"""Tiles drawn from a counter in global memory, as persistent kernels with a dynamic schedule do.

Shapes: `counter` one int32, `order_of` `tiles` of them, which say whose program took which tile. No mistake can be planted.
"""

import triton.language as tl

import mimw
from mimw import tlx


@mimw.jit
def drawn(counter, order_of, tiles, LIMIT: tl.constexpr):
    """Tiles drawn from a counter: the number goes through shared memory to the task that works on it."""
    slot = tlx.local_alloc((1, ), tl.int32, 1)
    full = tlx.alloc_barriers(1)
    free = tlx.alloc_barriers(1)
    with tlx.async_tasks():
        with tlx.async_task("default"):  # worker
            turn = 0
            tile = tl.program_id(0)
            while tile < tiles:
                tl.store(order_of + tile, tl.program_id(0))
                tlx.barrier_wait(full[0], turn % 2)
                tile = tl.max(tlx.local_load(slot[0]), 0)
                tlx.barrier_arrive(free[0])
                turn += 1
        with tlx.async_task(num_warps=1):  # scheduler
            turn = 0
            tile = tl.program_id(0)
            while tile < tiles:
                tile = tl.atomic_add(counter, 1) + tl.num_programs(0)
                tlx.barrier_wait(free[0], turn % 2 ^ 1)
                tlx.local_store(slot[0], tl.full((1, ), tile, tl.int32))
                tlx.barrier_arrive(full[0])
                turn += 1
