"""One task stores a tile in shared memory, and another one loads it; without the barrier nothing orders them.

Shapes: x and y (CTAs * N, ) in fp32; y = x. The mistake: without RIGHT no task waits. `case` and `case_unordered` are launches of
two CTAs for the command line.
"""

import numpy as np
import triton.language as tl

import mimw
import mimw.tlx as tlx


@mimw.jit
def handed_over(x, y, RIGHT: tl.constexpr, N: tl.constexpr):
    tile, full = tlx.local_alloc((N, ), tl.float32, 1), tlx.alloc_barriers(1)
    at = tl.program_id(0) * N + tl.arange(0, N)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            if RIGHT:
                tlx.barrier_wait(full[0], 0)
            tl.store(y + at, tlx.local_load(tile[0]))
        with tlx.async_task(num_warps=4):
            tlx.local_store(tile[0], tl.load(x + tl.program_id(0) * N + tl.arange(0, N)))
            tlx.barrier_arrive(full[0])


def case(right=True):
    return handed_over, (2, ), (np.arange(64, dtype=np.float32), np.full(64, -1, np.float32)), {"RIGHT": right, "N": 32}


def case_unordered():
    return case(False)
