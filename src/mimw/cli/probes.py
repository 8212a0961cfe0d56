"""The smallest kernels that show what works on a machine, written as a user would write kernels; `mimw doctor` runs them.

Input: the arguments of `SIGNATURE`, two arrays of 128 fp32 numbers. Output: the second array, a copy of the first:

    mimw.simulate(copy_between_tasks, (1, ), source, target)        then (source == target).all()
"""

from __future__ import annotations

import triton.language as tl

import mimw
from mimw import tlx

SIGNATURE = {"source": "*fp32", "target": "*fp32"}


@mimw.jit
def copy_plain(source, target):
    """One warp group copies 128 numbers: none of our words."""
    at = tl.arange(0, 128)
    tl.store(target + at, tl.load(source + at))


@mimw.jit
def copy_between_tasks(source, target):
    """One task loads 128 numbers into shared memory, another stores them: tasks, a buffer and a barrier."""
    tile = tlx.local_alloc((128, ), tl.float32, 1)
    full = tlx.alloc_barriers(1)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            at = tl.arange(0, 128)
            tlx.barrier_wait(full[0], 0)
            tl.store(target + at, tlx.local_load(tile[0]))
        with tlx.async_task(num_warps=4):
            at = tl.arange(0, 128)
            tlx.local_store(tile[0], tl.load(source + at))
            tlx.barrier_arrive(full[0])
