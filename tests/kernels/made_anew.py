"""Buffers, barriers and tasks that each trip of a loop makes anew.

Shapes: a row of WIDTH elements in fp32, as a descriptor and as a pointer, and an output of as many. It is right for any number of
trips; mistakes of such loops are planted in tests/check/test_made_anew.py.
"""

import numpy as np
import triton.language as tl

import mimw
import mimw.tlx as tlx

WIDTH = 64


@mimw.jit
def everything(x_desc, source, out, trips, WIDTH: tl.constexpr):
    """out = trips times the row: buffers, barriers and tasks are made in each trip."""
    total = tl.zeros((1, WIDTH), tl.float32)
    for _ in range(trips):
        row, copied = tlx.local_alloc((1, WIDTH), tl.float32, 1), tlx.local_alloc((WIDTH, ), tl.float32, 1)
        half = tlx.local_alloc((1, WIDTH), tl.float32, 1)
        full = tlx.alloc_barriers(1)
        with tlx.async_tasks():
            with tlx.async_task("default"):
                tlx.barrier_wait(full[0], 0)
                tlx.local_store(half[0], tlx.local_load(row[0]) * 0.5)
            with tlx.async_task(num_warps=1):
                tlx.barrier_expect_bytes(full[0], 4 * WIDTH)
                tlx.async_descriptor_load(x_desc, row[0], [0, 0], full[0])
            with tlx.async_task(num_warps=4):
                tlx.async_load(source + tl.arange(0, WIDTH), copied[0])
                tlx.async_load_commit_group()
                tlx.async_load_wait_group(0)
        total += tlx.local_load(half[0]) + tlx.local_load(copied[0])[None, :] * 0.5
    tl.store(out + tl.arange(0, WIDTH)[None, :], total)


def of_everything(trips):
    row, out = np.ones((1, WIDTH), np.float32), np.zeros(WIDTH, np.float32)
    return (mimw.TensorDescriptor.from_tensor(row, [1, WIDTH]), row, out, trips), out
