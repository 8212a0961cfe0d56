"""Fences that were missing between ordinary accesses and copy engines or tensor cores."""

import numpy as np
import triton.language as tl

import mimw
import mimw.tlx as tlx

from .case import case, describe


def is_hand_over(op, program) -> bool:
    return op.name == "fence" and op.args[0] == "handover"


def is_delivery(op, program) -> bool:
    return op.name == "fence" and op.args[0] == "delivery"


@mimw.jit
def polling(x_ptr, x_desc, flag_ptr, y_ptr, MENDED: tl.constexpr):
    """A sender writes tokens and a flag; a receiver polls the flag and has TMA load the tokens."""
    line = tlx.local_alloc((128, ), tl.float32, 1)
    full = tlx.alloc_barriers(1)
    at = tl.arange(0, 128)
    if tl.program_id(0) == 0:
        tl.store(x_ptr + at, at.to(tl.float32))
        tl.atomic_xchg(flag_ptr, 1, sem="release", scope="sys")
    else:
        while tl.atomic_add(flag_ptr, 0, sem="acquire", scope="sys") == 0:
            pass
        if MENDED:
            tlx.fence("sys")
        tlx.barrier_expect_bytes(full[0], 512)
        tlx.async_descriptor_load(x_desc, line[0], [0], full[0])
        tlx.barrier_wait(full[0], 0)
        tl.store(y_ptr + at, tlx.local_load(line[0]))


@case("deepseek-ai/DeepEP#632", kind="MissingFence", lines=("tl.store(x_ptr", "async_descriptor_load"))
def polled_then_loaded_by_tma(mended):
    """A flag is polled by ordinary loads, then TMA loads what was written before the flag was set: no proxy fence between."""
    x, flag, y = np.zeros(128, np.float32), np.zeros(1, np.int32), np.zeros(128, np.float32)
    return polling, 2, (x, describe(x, [128]), flag, y, mended), {}


@mimw.jit
def combining(x_desc, y_ptr, steps):
    """A producer fills two stages by TMA; a consumer reads them by ordinary loads and adds them up."""
    stages = tlx.local_alloc((16, 32), tl.float16, 2)
    full, empty = tlx.alloc_barriers(2), tlx.alloc_barriers(2)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            at = tl.arange(0, 16)[:, None] * 32 + tl.arange(0, 32)[None, :]
            total = tl.zeros((16, 32), tl.float32)
            for step in range(steps):
                tlx.barrier_wait(full[step % 2], (step // 2) & 1)
                total += tlx.local_load(stages[step % 2]).to(tl.float32)
                tlx.barrier_arrive(empty[step % 2])
            tl.store(y_ptr + at, total)
        with tlx.async_task(num_warps=1):
            for step in range(steps):
                tlx.barrier_wait(empty[step % 2], ((step // 2) & 1) ^ 1)
                tlx.barrier_expect_bytes(full[step % 2], 1024)
                tlx.async_descriptor_load(x_desc, stages[step % 2], [step * 16, 0], full[step % 2])


@case("deepseek-ai/DeepEP#642", "NVIDIA/nccl-extensions#8", "Dao-AILab/flash-attention#2462", "NVIDIA/TransformerEngine#2695",
      kind="MissingFence", lines=("local_load", "async_descriptor_load"), by="the compiler", taken_out=is_hand_over)
def read_then_filled_again(mended):
    """A stage is read by ordinary loads and released, and TMA fills it again: no proxy fence before the arrive."""
    x, y = np.ones((96, 32), np.float16), np.zeros((16, 32), np.float32)
    return combining, 1, (describe(x, [16, 32]), y, 6), {}


@mimw.jit
def saving_state(x_ptr, y_desc, tiles, MENDED: tl.constexpr):
    """A state starts as zeros in shared memory, every tile updates it, TMA stores it at the end."""
    state = tlx.local_alloc((16, 32), tl.float16, 1)
    at = tl.arange(0, 16)[:, None] * 32 + tl.arange(0, 32)[None, :]
    tlx.local_store(state[0], tl.zeros((16, 32), tl.float16))
    if MENDED:
        tlx.fence("async_shared")
    for tile in range(tiles):
        tlx.local_store(state[0], tlx.local_load(state[0]) + tl.load(x_ptr + tile * 512 + at))
        tlx.fence("async_shared")
    tlx.async_descriptor_store(y_desc, state[0], [0, 0])
    tlx.async_descriptor_store_wait(0)


@case("MoonshotAI/FlashKDA#24", kind="MissingFence", lines=("tl.zeros((16, 32)", "async_descriptor_store(y_desc"),
      by="the compiler", taken_out=is_delivery)
def an_empty_sequence(mended):
    """The fence before the TMA store stands in the loop over tiles; an empty sequence has none, and its zeros are never fenced."""
    x, y = np.ones((3, 16, 32), np.float16), np.zeros((16, 32), np.float16)
    return saving_state, 1, (x, describe(y, [16, 32]), 3, mended), {}


@mimw.jit
def late_barrier(x_ptr, y_ptr, MENDED: tl.constexpr):
    """A pair of CTAs; a barrier that is made in a loop tells the other CTA that its data have come."""
    line = tlx.local_alloc((128, ), tl.float32, 1)
    rank, at = tlx.cluster_cta_rank(), tl.arange(0, 128)
    for step in range(1):
        full = tlx.alloc_barriers(1)
        if MENDED:
            tlx.fence_mbarrier_init_cluster()
        tlx.cluster_barrier()
        tlx.barrier_expect_bytes(full[0], 512)
        tlx.async_remote_shmem_store(line[0], tl.load(x_ptr + at), rank ^ 1, full[0])
        tlx.barrier_wait(full[0], 0)
        tl.store(y_ptr + rank * 128 + at, tlx.local_load(line[0]))


@case("MoonshotAI/FlashKDA#24", kind="BarrierNotReady", lines=("async_remote_shmem_store", "alloc_barriers"))
def a_barrier_used_unfenced(mended):
    """A barrier is initialised and then counted on by asynchronous copies without `fence.mbarrier_init` (for barriers made at the
    start of a kernel the compiler puts it in; made later and used across a cluster, it is the author's)."""
    return late_barrier, 2, (np.ones(128, np.float32), np.zeros((2, 128), np.float32), mended), dict(ctas_per_cga=(2, 1, 1))


@mimw.jit
def backward(x_ptr, b_desc, y_ptr, MENDED: tl.constexpr):
    """One task computes dS into shared memory, another multiplies with it."""
    ds = tlx.local_alloc((64, 64), tl.float16, 1)
    b = tlx.local_alloc((64, 64), tl.float16, 1)
    loaded, written = tlx.alloc_barriers(1), tlx.alloc_barriers(1)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tlx.barrier_expect_bytes(loaded[0], 8192)
            tlx.async_descriptor_load(b_desc, b[0], [0, 0], loaded[0])
            tlx.barrier_wait(loaded[0], 0)
            tlx.barrier_wait(written[0], 0)
            acc = tlx.async_dot(ds[0], b[0], tl.zeros((64, 64), tl.float32))
            acc = tlx.async_dot_wait(0, acc)
            tl.store(y_ptr + tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :], acc)
        with tlx.async_task(num_warps=4):
            tlx.local_store(ds[0], tl.load(x_ptr + tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :]))
            if MENDED:
                tlx.fence("async_shared")
            tlx.barrier_arrive(written[0])


@case("Dao-AILab/flash-attention#2033", kind="MissingFence", lines=("local_store(ds", "async_dot(ds"),
      by="the compiler", taken_out=is_delivery)
def ds_committed_before_its_fence(mended):
    """dS is announced to the warps that multiply with it before the fence for shared memory."""
    x, y = np.ones((64, 64), np.float16), np.zeros((64, 64), np.float32)
    return backward, 1, (x, describe(x, [64, 64]), y, mended), {}


@mimw.jit
def out_by_tma(x_ptr, y_desc, MENDED: tl.constexpr):
    """A tile from registers through shared memory to TMA."""
    tile = tlx.local_alloc((16, 32), tl.float16, 1)
    tlx.local_store(tile[0], tl.load(x_ptr + tl.arange(0, 16)[:, None] * 32 + tl.arange(0, 32)[None, :]))
    if MENDED:
        tlx.fence("async_shared")
    tlx.async_descriptor_store(y_desc, tile[0], [0, 0])
    tlx.async_descriptor_store_wait(0)


@case("inclusionAI/cuLA#114", "MoonshotAI/FlashKDA#24", kind="MissingFence", lines=("local_store", "async_descriptor_store(y_desc"),
      by="the compiler", taken_out=is_delivery)
def stored_without_a_fence(mended):
    """Shared memory is written by ordinary stores and sent off by a TMA store, with a barrier but no proxy fence between."""
    x, y = np.ones((16, 32), np.float16), np.zeros((16, 32), np.float16)
    return out_by_tma, 1, (x, describe(y, [16, 32]), mended), {}
