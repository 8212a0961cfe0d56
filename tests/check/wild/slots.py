"""Memory that was given back, or taken again, too early; and what passes by luck."""

import numpy as np
import triton.language as tl

import mimw
import mimw.tlx as tlx

from .case import case, describe

PAIR = dict(ctas_per_cga=(2, 1, 1))


@mimw.jit
def scheduling(y_ptr, tiles, WHEN: tl.constexpr):
    """A scheduler announces tile after tile through a mailbox; a worker takes them."""
    mailbox = tlx.local_alloc((32, ), tl.int32, 1)
    ready, finished = tlx.alloc_barriers(1), tlx.alloc_barriers(1)
    with tlx.async_tasks():
        with tlx.async_task("default"):  # worker
            for step in range(tiles):
                tlx.barrier_wait(ready[0], step & 1)
                if WHEN == "before":
                    tlx.barrier_arrive(finished[0])
                tile = tlx.local_load(mailbox[0])
                if WHEN == "after":
                    tlx.barrier_arrive(finished[0])
                tl.store(y_ptr + step * 32 + tl.arange(0, 32), tile)
        with tlx.async_task(num_warps=1):  # scheduler
            for step in range(tiles):
                if WHEN != "never":
                    tlx.barrier_wait(finished[0], (step & 1) ^ 1)
                tlx.local_store(mailbox[0], step + tl.arange(0, 32))
                tlx.barrier_arrive(ready[0])


@case("tile-ai/tilelang#2410", kind="SlotReusedEarly", lines=("local_load(mailbox", "local_store(mailbox"))
def told_before_it_was_read(mended):
    """A consumer says that it is done with a schedule slot and reads it afterwards; the scheduler may have written the next one."""
    return scheduling, 1, (np.zeros((4, 32), np.int32), 4, "after" if mended else "before"), {}


@mimw.jit
def publishing(y_ptr, tiles, MENDED: tl.constexpr):
    """A producer publishes tile after tile in a mailbox with a barrier that says when; nobody says that it was read."""
    mailbox = tlx.local_alloc((32, ), tl.int32, 2)
    ready, taken = tlx.alloc_barriers(2), tlx.alloc_barriers(2)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            for step in range(tiles):
                tlx.barrier_wait(ready[step % 2], (step // 2) & 1)
                tl.store(y_ptr + step * 32 + tl.arange(0, 32), tlx.local_load(mailbox[step % 2]))
                if MENDED:
                    tlx.barrier_arrive(taken[step % 2])
        with tlx.async_task(num_warps=1):
            for step in range(tiles):
                if MENDED:
                    tlx.barrier_wait(taken[step % 2], ((step // 2) & 1) ^ 1)
                tlx.local_store(mailbox[step % 2], step + tl.arange(0, 32))
                tlx.barrier_arrive(ready[step % 2])


@case("NVlabs/cuda-oxide#1066", kind="SlotReusedEarly", lines=("local_load(mailbox", "local_store(mailbox"))
def a_mailbox_that_nobody_acknowledges(mended):
    """A mailbox is written again without any reader having said that it took what was there."""
    return publishing, 1, (np.zeros((4, 32), np.int32), 4, mended), {}


@mimw.jit
def two_groups(a_desc, b_desc, y_ptr, steps, COUNT: tl.constexpr):
    """Two warp groups multiply one tile of A with a B of their own."""
    a, b = tlx.local_alloc((64, 64), tl.float16, 1), tlx.local_alloc((64, 64), tl.float16, 1)
    full, free = tlx.alloc_barriers(1), tlx.alloc_barriers(1, arrive_count=COUNT)
    with tlx.async_tasks():
        with tlx.async_task("default", replicate=2):
            me: tl.constexpr = tlx.async_task_replica_id()
            acc = tl.zeros((64, 64), tl.float32)
            for step in range(steps):
                tlx.barrier_wait(full[0], step & 1)
                acc = tlx.async_dot(a[0], b[0], acc)
                acc = tlx.async_dot_wait(0, acc)
                if COUNT == 2 or me == 0:
                    tlx.barrier_arrive(free[0])
            tl.store(y_ptr + me * 4096 + tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :], acc)
        with tlx.async_task(num_warps=1):
            for step in range(steps):
                tlx.barrier_wait(free[0], (step & 1) ^ 1)
                tlx.barrier_expect_bytes(full[0], 16384)
                tlx.async_descriptor_load(a_desc, a[0], [0, step * 64], full[0])
                tlx.async_descriptor_load(b_desc, b[0], [step * 64, 0], full[0])


@case("tile-ai/tilelang#2613", kind="OperandOverwritten", lines=("async_dot(a", "async_descriptor_load(a_desc"))
def a_wait_for_the_own_group_only(mended):
    """Two warp groups read one operand; each waits for its own products, and the tile is filled again when one of them is done."""
    a, b, y = np.ones((64, 192), np.float16), np.ones((192, 64), np.float16), np.zeros((2, 64, 64), np.float32)
    return two_groups, 1, (describe(a, [64, 64]), describe(b, [64, 64]), y, 3, 2 if mended else 1), {}


@mimw.jit
def leading(x_desc, y_ptr, tiles, MENDED: tl.constexpr):
    """CTA 0 of a pair multicasts tile after tile to both; an epilogue in each reads its own and gives it back."""
    tile = tlx.local_alloc((16, 32), tl.float16, 1)
    full, free = tlx.alloc_barriers(1), tlx.alloc_barriers(1)
    both_free = tlx.alloc_barriers(1, arrive_count=2 if MENDED else 1)
    with tlx.async_tasks():
        with tlx.async_task("default"):  # epilogue
            rank, at = tlx.cluster_cta_rank(), tl.arange(0, 16)[:, None] * 32 + tl.arange(0, 32)[None, :]
            for step in range(tiles):
                tlx.barrier_wait(full[0], step & 1)
                tl.store(y_ptr + (2 * step + rank) * 512 + at, tlx.local_load(tile[0]))
                tlx.barrier_arrive(free[0])
        with tlx.async_task(num_warps=4):  # load
            me = tlx.cluster_cta_rank()
            for step in range(tiles):
                tlx.barrier_wait(free[0], (step & 1) ^ 1)
                tlx.barrier_expect_bytes(full[0], 1024)
                if MENDED or me == 0:
                    tlx.barrier_arrive(both_free[0], 1, remote_cta_rank=0)
                if me == 0:
                    tlx.barrier_wait(both_free[0], step & 1)
                    tlx.async_descriptor_load(x_desc, tile[0], [step * 16, 0], full[0], multicast_targets=[0, 1])


@case("inclusionAI/humming#56", kind="CopyReadEarly", lines=("multicast_targets", ))
def the_other_ctas_epilogue(mended):
    """The leader of a pair fills the buffers of both again when its own epilogue is done; the other CTA's may still be reading."""
    x, y = np.ones((48, 32), np.float16), np.zeros((6, 16, 32), np.float16)
    return leading, 2, (describe(x, [16, 32]), y, 3, mended), PAIR


@mimw.jit
def spinning(a_desc, b_desc, y_ptr, MENDED: tl.constexpr, LATE: tl.constexpr):
    """A product of two tiles that TMA loads; time passes before it, which mostly is enough."""
    a, b = tlx.local_alloc((64, 64), tl.float16, 1), tlx.local_alloc((64, 64), tl.float16, 1)
    full_a, full_b = tlx.alloc_barriers(1), tlx.alloc_barriers(1)
    tlx.barrier_expect_bytes(full_a[0], 8192)
    tlx.async_descriptor_load(a_desc, a[0], [0, 0], full_a[0])
    tlx.barrier_expect_bytes(full_b[0], 8192)
    tlx.async_descriptor_load(b_desc, b[0], [0, 0], full_b[0])
    late = tlx.clock64()
    while tlx.clock64() < late + 1000:
        pass
    if MENDED:
        tlx.barrier_wait(full_a[0], 0)
    tlx.barrier_wait(full_b[0], 0)
    acc = tlx.async_dot(a[0], b[0], tl.zeros((64, 64), tl.float32))
    acc = tlx.async_dot_wait(0, acc)
    if LATE and not MENDED:
        tlx.barrier_wait(full_a[0], 0)
    tl.store(y_ptr + tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :], acc)


def _spin(mended, late):
    x, y = np.ones((64, 64), np.float16), np.zeros((64, 64), np.float32)
    return spinning, 1, (describe(x, [64, 64]), describe(x, [64, 64]), y, mended, late), {}


@case("facebookexperimental/CUTracer#106", kind="CopyReadEarly", lines=("async_descriptor_load(a_desc", "async_dot(a"))
def waited_for_after_the_product(mended):
    """The wait for an operand stands behind the product; a delay in between makes it pass by luck."""
    return _spin(mended, True)


@case("facebookexperimental/CUTracer#106", kind="CopyReadEarly", lines=("async_descriptor_load(a_desc", "async_dot(a"))
def a_delay_instead_of_a_wait(mended):
    """There is no wait for an operand at all, only a delay that mostly is long enough."""
    return _spin(mended, False)


def is_the_last_meeting(op, program) -> bool:
    """The cluster barrier that the compiler puts at the end of a kernel."""
    return op.name == "cluster_barrier" and op is program.body.ops[-1]


@mimw.jit
def broadcasting(y_ptr):
    """CTA 0 sends CTA 1 a tile; CTA 1 answers on a barrier of CTA 0, which does not wait for it."""
    rank = tlx.cluster_cta_rank()
    tile = tlx.local_alloc((128, ), tl.float32, 1)
    full = tlx.alloc_barriers(1)
    if rank == 0:
        tlx.remote_shmem_store(tile[0], tl.arange(0, 128).to(tl.float32), 1)
        tlx.barrier_arrive(full[0], 1, remote_cta_rank=1)
    else:
        tlx.barrier_wait(full[0], 0)
        tlx.barrier_arrive(full[0], 1, remote_cta_rank=0)
        tl.store(y_ptr + tl.arange(0, 128), tlx.local_load(tile[0]))


@case("triton-lang/triton#11730", kind="PeerExited", lines=("remote_cta_rank=0", ), by="the compiler",
      taken_out=is_the_last_meeting)
def a_cta_that_leaves_first(mended):
    """A CTA returns while another of its cluster still reaches into its shared memory."""
    return broadcasting, 2, (np.zeros(128, np.float32), ), PAIR
