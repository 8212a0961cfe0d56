"""The copy of docs/ARCHITECTURE.md: one task loads SIZE numbers into shared memory, another stores them.

Shapes: source and target SIZE fp32, one program. The worker asks for 232 registers. No mistake can be planted.
"""

import triton.language as tl

import mimw
from mimw import tlx


@mimw.jit
def copy(source, target, SIZE: tl.constexpr = 128):
    tile = tlx.local_alloc((SIZE, ), tl.float32, 1)
    full = tlx.alloc_barriers(1)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            at = tl.arange(0, SIZE)
            tlx.barrier_wait(full[0], 0)
            tl.store(target + at, tlx.local_load(tile[0]))
        with tlx.async_task(num_warps=4, registers=232):
            at = tl.arange(0, SIZE)
            tlx.local_store(tile[0], tl.load(source + at))
            tlx.barrier_arrive(full[0])
