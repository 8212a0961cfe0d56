"""Warp-specialised kernels whose syncs, registers and buffers the tests look at.

Shapes: tiles of (64, 64) in fp16, n of them in a loop, x and y by descriptor or pointer. Each kernel is right.
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx


@mimw.jit
def through_staging(x_desc, y_desc, n):
    tiles = tlx.local_alloc((64, 64), tl.float16, 2)
    staging = tlx.local_alloc((64, 64), tl.float16, 1)
    full, free = tlx.alloc_barriers(2), tlx.alloc_barriers(2)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            for i in range(n):
                tlx.barrier_wait(full[i % 2], (i // 2) % 2)
                tile = tlx.local_load(tiles[i % 2])
                tlx.barrier_arrive(free[i % 2])
                tlx.async_descriptor_store_wait(0)
                tlx.local_store(staging[0], tile * 2)
                tlx.fence("async_shared")
                tlx.async_descriptor_store(y_desc, staging[0], [i * 64, 0])
            tlx.async_descriptor_store_wait(0)
        with tlx.async_task(num_warps=1):
            for i in range(n):
                tlx.barrier_wait(free[i % 2], (i // 2) % 2 ^ 1)
                tlx.barrier_expect_bytes(full[i % 2], 8192)
                tlx.async_descriptor_load(x_desc, tiles[i % 2], [i * 64, 0], full[i % 2])


@mimw.jit
def column_sums(x, tile: tl.constexpr):
    """A reduction over rows: partial sums of the warps meet in shared memory, which takes a task-wide sync."""
    at = tl.arange(0, 128)[:, None] * 32 + tl.arange(0, 32)[None, :]
    sums = tl.sum(tl.load(x + tile * 4096 + at), axis=0)
    tl.store(x + tile * 4096 + tl.arange(0, 32), sums)


@mimw.jit
def tasks_of_all_sizes(x):
    with tlx.async_tasks():
        with tlx.async_task("default"):
            column_sums(x, 0)
        with tlx.async_task(num_warps=8):
            column_sums(x, 1)
        with tlx.async_task(num_warps=2):
            column_sums(x, 2)
        with tlx.async_task(num_warps=1):
            column_sums(x, 3)


@mimw.jit
def transposing_tasks(x, y_desc, n):
    """Buffers and conversions in every task: descriptor stores stage tiles, transposing converts layouts."""
    with tlx.async_tasks():
        with tlx.async_task("default"):
            at = tl.arange(0, 64)[:, None] + tl.arange(0, 64)[None, :] * 64
            for i in range(n):
                y_desc.store([i * 64, 0], tl.load(x + i * 4096 + at))
        with tlx.async_task(num_warps=4):
            own = tlx.local_alloc((64, 64), tl.float16, 1)
            at = tl.arange(0, 64)[:, None] + tl.arange(0, 64)[None, :] * 64
            for i in range(n):
                tlx.local_store(own[0], tl.load(x + (n + i) * 4096 + at))
                tile = tlx.local_load(tlx.local_trans(own[0]))
                y_desc.store([(n + i) * 64, 0], tile)


@mimw.jit
def one_after_the_other(x, n):
    """Two buffers, the second first used when the first has been used last, and conversions before, between and after.
    Rows are short, since a sort is long."""
    rows, cols = tl.arange(0, 64)[:, None], tl.arange(0, 16)[None, :]
    first, second = tlx.local_alloc((64, 16), tl.float16, 1), tlx.local_alloc((64, 16), tl.float16, 1)
    tlx.local_store(first[0], tl.sort(tl.load(x + rows + cols * 64)))
    tile = tlx.local_load(first[0])
    tl.store(x + rows + cols * 64, tl.sort(tile))
    tlx.local_store(second[0], tile + 1)
    tl.store(x + rows + cols * 64 + 1024, tl.sort(tlx.local_load(second[0])))


@mimw.jit
def inside_loop_and_if(x, n):
    """Buffers of a loop and of a branch; the conversion after the branch must not land on the branch's buffer."""
    rows, cols = tl.arange(0, 64)[:, None], tl.arange(0, 16)[None, :]
    outer = tlx.local_alloc((64, 16), tl.float16, 1)
    tlx.local_store(outer[0], tl.load(x + rows * 16 + cols))
    for i in range(n):
        looped = tlx.local_alloc((64, 16), tl.float16, 1)
        tlx.local_store(looped[0], tl.load(x + i * 1024 + rows * 16 + cols))
        tile = tlx.local_load(looped[0])
        if i > 3:
            branch = tlx.local_alloc((64, 16), tl.float16, 1)
            tlx.local_store(branch[0], tile + 1)
            tl.store(x + rows + cols * 64, tlx.local_load(branch[0]))
        tl.store(x + rows + cols * 64 + 1024, tl.sort(tile))


@mimw.jit
def operand_by_descriptor(x, y_desc, n):
    """x = x y in mma.sync, whose operands Triton loads where the product stands, behind A's way there."""
    at, buffer = tl.arange(0, 16)[:, None] * 64 + tl.arange(0, 64)[None, :], tlx.local_alloc((16, 64), tl.float16, 1)
    tile = tl.load(x + at)
    tlx.local_store(buffer[0], tile)
    y = y_desc.load([n, 0])
    tl.store(x + at, tl.dot(tile, y).to(tl.float16))
