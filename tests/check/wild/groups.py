"""Waits for groups of copies and products that were too weak, too late, or not there."""

import numpy as np
import triton.language as tl

import mimw
import mimw.tlx as tlx

from .case import case, describe


@mimw.jit
def relaying(x_desc, y_desc, steps, PENDING: tl.constexpr):
    """Tiles from global memory to global memory through two stages; a stage is filled again as soon as it has been sent."""
    stages = tlx.local_alloc((16, 32), tl.float16, 2)
    full = tlx.alloc_barriers(2)
    for first in tl.static_range(2):
        tlx.barrier_expect_bytes(full[first], 1024)
        tlx.async_descriptor_load(x_desc, stages[first], [first * 16, 0], full[first])
    for step in range(steps):
        stage = step % 2
        tlx.barrier_wait(full[stage], (step // 2) & 1)
        tlx.async_descriptor_store(y_desc, stages[stage], [step * 16, 0])
        if step + 2 < steps:
            tlx.async_descriptor_store_wait(PENDING)
            tlx.barrier_expect_bytes(full[stage], 1024)
            tlx.async_descriptor_load(x_desc, stages[stage], [(step + 2) * 16, 0], full[stage])
    tlx.async_descriptor_store_wait(0)


@case("deepseek-ai/DeepEP#657", kind="SourceOverwritten", lines=("async_descriptor_store(y_desc", "[(step + 2) * 16, 0]"))
def wait_group_of_one_too_many(mended):
    """With two stages, `wait_group 1` lets the store of the very stage that is filled next be unfinished."""
    x, y = np.ones((96, 32), np.float16), np.zeros((96, 32), np.float16)
    return relaying, 1, (describe(x, [16, 32]), describe(y, [16, 32]), 6, 0 if mended else 1), {}


@mimw.jit
def gathering(x_desc, y_desc, steps, MENDED: tl.constexpr):
    """Two tasks of work after each other; the last slot of the input ring also holds the result on its way out."""
    ring = tlx.local_alloc((16, 32), tl.float32, 2)
    full = tlx.alloc_barriers(2)
    used = 0
    for work in tl.static_range(3):
        total = tl.zeros((16, 32), tl.float32)
        if MENDED:
            tlx.async_descriptor_store_wait(0)
        for step in range(steps):
            slot = used % 2
            if step == 1:
                tlx.async_descriptor_store_wait(0)
            tlx.barrier_expect_bytes(full[slot], 2048)
            tlx.async_descriptor_load(x_desc, ring[slot], [step * 16, 0], full[slot])
            tlx.barrier_wait(full[slot], (used // 2) & 1)
            total += tlx.local_load(ring[slot])
            used += 1
        tlx.async_descriptor_store_wait(0)
        tlx.local_store(ring[1], total)
        tlx.fence("async_shared")
        tlx.async_descriptor_store(y_desc, ring[1], [work * 16, 0])
    tlx.async_descriptor_store_wait(0)


@case("uccl-project/mKernel#18", kind="SourceOverwritten", lines=("async_descriptor_store(y_desc", "async_descriptor_load(x_desc"),
      by="rounds")
def a_wait_at_a_fixed_step(mended):
    """The wait for the last result's store stands at a fixed step of the loop, where the slot that it left from comes round only if
    the loop is a multiple of the ring."""
    x, y = np.ones((64, 32), np.float32), np.zeros((48, 32), np.float32)
    return gathering, 1, (describe(x, [16, 32]), describe(y, [16, 32]), 4, mended), {}


@mimw.jit
def multiplying(a_desc, b_desc, y_ptr, steps, MENDED: tl.constexpr):
    """A ring of operands for the tensor core."""
    a, b = tlx.local_alloc((64, 64), tl.float16, 2), tlx.local_alloc((64, 64), tl.float16, 2)
    full, free = tlx.alloc_barriers(2), tlx.alloc_barriers(2)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            acc = tl.zeros((64, 64), tl.float32)
            for step in range(steps):
                tlx.barrier_wait(full[step % 2], (step // 2) & 1)
                acc = tlx.async_dot(a[step % 2], b[step % 2], acc)
                if MENDED:
                    acc = tlx.async_dot_wait(0, acc)
                tlx.barrier_arrive(free[step % 2])
            acc = tlx.async_dot_wait(0, acc)
            tl.store(y_ptr + tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :], acc)
        with tlx.async_task(num_warps=1):
            for step in range(steps):
                tlx.barrier_wait(free[step % 2], ((step // 2) & 1) ^ 1)
                tlx.barrier_expect_bytes(full[step % 2], 16384)
                tlx.async_descriptor_load(a_desc, a[step % 2], [0, step * 64], full[step % 2])
                tlx.async_descriptor_load(b_desc, b[step % 2], [step * 64, 0], full[step % 2])


@case("NVIDIA/Fuser#3561", kind="OperandOverwritten", lines=("async_dot(a", "async_descriptor_load("))
def no_wgmma_wait_before_the_arrive(mended):
    """The compute warps give a stage back without waiting for the wgmma that reads it; no test had failed."""
    a, b, y = np.ones((64, 320), np.float16), np.ones((320, 64), np.float16), np.zeros((64, 64), np.float32)
    return multiplying, 1, (describe(a, [64, 64]), describe(b, [64, 64]), y, 5, mended), {}


@mimw.jit
def sharing(x_ptr, y_ptr, MENDED: tl.constexpr):
    """One task copies a row by cp.async for another."""
    row = tlx.local_alloc((128, ), tl.float32, 1)
    full = tlx.alloc_barriers(1)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tlx.barrier_wait(full[0], 0)
            tl.store(y_ptr + tl.arange(0, 128), tlx.local_load(row[0]))
        with tlx.async_task(num_warps=4):
            tlx.async_load(x_ptr + tl.arange(0, 128), row[0])
            tlx.async_load_commit_group()
            if MENDED:
                tlx.async_load_wait_group(0)
            tlx.barrier_arrive(full[0])
            tlx.async_load_wait_group(0)


@case("NVIDIA/Fuser#3428", kind="CopyReadEarly", lines=("async_load(x_ptr", "local_load(row"))
def a_barrier_without_the_wait_for_cp_async(mended):
    """Threads synchronise at a barrier after cp.async, but nobody has waited for the copy: the barrier says nothing of it."""
    return sharing, 1, (np.ones(128, np.float32), np.zeros(128, np.float32), mended), {}


@mimw.jit
def signalling(x_ptr, x_desc, flag_ptr, y_ptr, MENDED: tl.constexpr):
    """A storer writes a tile by TMA and signals; a communicator reads it."""
    line = tlx.local_alloc((128, ), tl.float32, 1)
    at = tl.arange(0, 128)
    if tl.program_id(0) == 0:
        tlx.local_store(line[0], at.to(tl.float32))
        tlx.fence("async_shared")
        tlx.async_descriptor_store(x_desc, line[0], [0])
        if MENDED:
            tlx.async_descriptor_store_wait(0)
        tl.atomic_xchg(flag_ptr, 1, sem="release")
        tlx.async_descriptor_store_wait(0)
    else:
        while tl.atomic_add(flag_ptr, 0, sem="acquire") == 0:
            pass
        tl.store(y_ptr + at, tl.load(x_ptr + at))


@case("HazyResearch/ThunderKittens#194", kind="DataRace", lines=("async_descriptor_store(x_desc", "tl.load(x_ptr"))
def signalled_before_the_store_is_done(mended):
    """The signal follows a wait that says only that shared memory has been read (`wait_group.read`), not that global memory has
    been written. TLX has no such wait: the same mistake is to signal before `async_descriptor_store_wait`."""
    x, flag, y = np.zeros(128, np.float32), np.zeros(1, np.int32), np.zeros(128, np.float32)
    return signalling, 2, (x, describe(x, [128]), flag, y, mended), {}
