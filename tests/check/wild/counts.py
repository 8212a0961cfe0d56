"""Arrivals that did not come, came too often, or waited for each other."""

import numpy as np
import triton.language as tl

import mimw
import mimw.tlx as tlx

from .case import case, describe


@mimw.jit
def one_trip(x_desc, y_ptr, steps, MENDED: tl.constexpr):
    """A stage is complete when its bytes are there and the producer has arrived besides."""
    tiles = tlx.local_alloc((16, 32), tl.float16, 2)
    full, free = tlx.alloc_barriers(2, arrive_count=2), tlx.alloc_barriers(2)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            at = tl.arange(0, 16)[:, None] * 32 + tl.arange(0, 32)[None, :]
            for k in range(steps):
                tlx.barrier_wait(full[k % 2], (k // 2) & 1)
                tl.store(y_ptr + k * 512 + at, tlx.local_load(tiles[k % 2]))
                tlx.barrier_arrive(free[k % 2])
        with tlx.async_task(num_warps=1):
            for k in range(steps):
                tlx.barrier_wait(free[k % 2], ((k // 2) & 1) ^ 1)
                tlx.barrier_expect_bytes(full[k % 2], 1024)
                tlx.async_descriptor_load(x_desc, tiles[k % 2], [k * 16, 0], full[k % 2])
                if MENDED or steps > 1:
                    tlx.barrier_arrive(full[k % 2])


@case("tile-ai/tilelang#2566", kind="TooFewArrivals", lines=("barrier_wait(full", ), by="rounds")
def a_loop_of_one_trip(mended):
    """A pipelined loop with one iteration is put together in another way, without the producer's arrive, and hangs."""
    x, y = np.ones((96, 32), np.float16), np.zeros((96, 32), np.float16)
    return one_trip, 1, (describe(x, [16, 32]), y, 6, mended), {}


@mimw.jit
def softmax_ready(y_ptr, THREADS: tl.constexpr):
    """One warp group tells another by a numbered barrier."""
    tile = tlx.local_alloc((128, ), tl.float32, 1)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tlx.local_store(tile[0], tl.arange(0, 128).to(tl.float32))
            tlx.named_barrier_arrive(9, THREADS)
        with tlx.async_task(num_warps=4):
            tlx.named_barrier_wait(9, THREADS)
            tl.store(y_ptr + tl.arange(0, 128), tlx.local_load(tile[0]))


@case("deepseek-ai/FlashMLA#57", kind="Deadlock", lines=("named_barrier_wait", ))
def more_threads_than_come(mended):
    """A named barrier expects more threads than ever reach it, and the block hangs."""
    return softmax_ready, 1, (np.zeros(128, np.float32), 256 if mended else 384), {}


@mimw.jit
def shared_tile(y_ptr, tiles, MENDED: tl.constexpr):
    """Load and compute warps meet before and after each tile; compute has nothing to do for odd ones."""
    tile = tlx.local_alloc((128, ), tl.float32, 1)
    with tlx.async_tasks():
        with tlx.async_task("default"):  # compute
            for step in range(tiles):
                tlx.named_barrier_wait(8, 256)
                if step % 2 == 0:
                    tl.store(y_ptr + step * 128 + tl.arange(0, 128), tlx.local_load(tile[0]))
                if step % 2 == 0 or MENDED:
                    tlx.named_barrier_wait(9, 256)
        with tlx.async_task(num_warps=4):  # load
            for step in range(tiles):
                tlx.local_store(tile[0], tl.arange(0, 128).to(tl.float32))
                tlx.named_barrier_wait(8, 256)
                tlx.named_barrier_wait(9, 256)


@case("vllm-project/vllm#26026", kind="Deadlock", lines=("named_barrier_wait(9", ))
def an_early_return_past_the_meeting(mended):
    """The path of a tile without work does not wait at the barrier that the other warps wait at, and the next round finds it out of
    step."""
    return shared_tile, 1, (np.zeros((4, 128), np.float32), 4, mended), {}


@mimw.jit
def queries(q_desc, x_desc, y_ptr, MENDED: tl.constexpr):
    """A producer brings Q, then other inputs; a consumer gives Q's buffer back when it has used it."""
    q = tlx.local_alloc((16, 32), tl.float16, 1)
    x = tlx.local_alloc((16, 32), tl.float16, 1)
    q_full, q_free, x_full = tlx.alloc_barriers(1), tlx.alloc_barriers(1), tlx.alloc_barriers(1)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            at = tl.arange(0, 16)[:, None] * 32 + tl.arange(0, 32)[None, :]
            for i in tl.static_range(2):
                tlx.barrier_wait(q_full[0], i)
                value = tlx.local_load(q[0])
                if MENDED:
                    tlx.barrier_arrive(q_free[0])
                tlx.barrier_wait(x_full[0], i)
                tl.store(y_ptr + i * 512 + at, value + tlx.local_load(x[0]))
                if not MENDED:
                    tlx.barrier_arrive(q_free[0])
        with tlx.async_task(num_warps=1):
            for i in tl.static_range(2):
                tlx.barrier_expect_bytes(q_full[0], 1024)
                tlx.async_descriptor_load(q_desc, q[0], [i * 16, 0], q_full[0])
                tlx.barrier_wait(q_free[0], i)
                tlx.barrier_expect_bytes(x_full[0], 1024)
                tlx.async_descriptor_load(x_desc, x[0], [i * 16, 0], x_full[0])


@case("tile-ai/tilelang#2567", kind="WaitCycle", lines=("barrier_wait(x_full", "barrier_wait(q_free"))
def released_after_what_the_release_is_waited_for(mended):
    """A consumer gives a buffer back only after data that the producer does not bring before the buffer is free."""
    q, y = np.ones((32, 32), np.float16), np.zeros((32, 32), np.float16)
    return queries, 1, (describe(q, [16, 32]), describe(q, [16, 32]), y, mended), {}
