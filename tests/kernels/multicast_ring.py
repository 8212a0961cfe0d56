"""Two CTAs of a cluster that fill each other's shared memory: a ring by multicast, and one tile sent to the other CTA.

Shapes: x (64 rounds, 64) in fp16 by blocks of (32, 64), y one (64, 64) tile; `exchange` says its own. Mistakes: EXPECT and ARRIVALS
that are not those of `RIGHT`, TARGETS that leave a CTA out, TELL="own" or "other" in place of "both"; BYTES of `exchange`.
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx

HALF = 32 * 64 * 2          # bytes of one block of the descriptor


@mimw.jit
def ring(x_desc, rounds, y_ptr, EXPECT: tl.constexpr, ARRIVALS: tl.constexpr, TARGETS: tl.constexpr, TELL: tl.constexpr,
         RANKED: tl.constexpr):
    """Each of two CTAs loads half a slot into both of them, and tells TELL of them when it has read a slot."""
    tiles = tlx.local_alloc((64, 64), tl.float16, 2)
    full = tlx.alloc_barriers(2)
    empty = tlx.alloc_barriers(2, arrive_count=ARRIVALS)
    rank = tlx.cluster_cta_rank()
    first = tl.program_id(0) if RANKED else tl.program_id(0) // 2
    with tlx.async_tasks():
        with tlx.async_task(num_warps=1):
            count = 0
            for i in range(first, rounds):
                slot, phase = tlx.warp_spec.get_bufidx_phase(count, 2)
                tlx.barrier_wait(empty[slot], phase ^ 1)
                tlx.barrier_expect_bytes(full[slot], EXPECT)
                half = tlx.local_slice(tiles[slot], [rank * 32, 0], [32, 64])
                tlx.async_descriptor_load(x_desc, half, [i * 64 + rank * 32, 0], full[slot], multicast_targets=TARGETS)
                count += 1
        with tlx.async_task("default"):
            count = 0
            for i in range(first, rounds):
                slot, phase = tlx.warp_spec.get_bufidx_phase(count, 2)
                tlx.barrier_wait(full[slot], phase)
                tl.store(y_ptr + tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :], tlx.local_load(tiles[slot]))
                if TELL != "other":
                    tlx.barrier_arrive(empty[slot])
                if TELL != "own":
                    tlx.barrier_arrive(empty[slot], remote_cta_rank=rank ^ 1)
                count += 1


RIGHT = dict(EXPECT=2 * HALF, ARRIVALS=2, TARGETS=[0, 1], TELL="both", RANKED=False)


@mimw.jit
def exchange(y_ptr, FIRST: tl.constexpr, BYTES: tl.constexpr, COPY: tl.constexpr):
    """Each CTA hands 32 numbers to the other, before (FIRST) or after it waits for those of the other."""
    tiles = tlx.local_alloc((32, ), tl.int32, 2)
    bar = tlx.alloc_barriers(1)
    said = tlx.alloc_barriers(1)
    other, at = tlx.cluster_cta_rank() ^ 1, tl.arange(0, 32)
    tlx.local_store(tiles[0], at)
    tlx.fence("async_shared")
    tlx.barrier_expect_bytes(bar, BYTES)
    if COPY:
        tlx.async_remote_shmem_copy(tiles[1], tiles[0], other, bar)
    else:
        tlx.async_remote_shmem_store(tiles[1], at, other, bar)
    if FIRST:
        tlx.barrier_arrive(said, remote_cta_rank=other)
    tlx.barrier_wait(said, 0)
    if not FIRST:
        tlx.barrier_arrive(said, remote_cta_rank=other)
    tlx.barrier_wait(bar, 0)
    tl.store(y_ptr + at, tlx.local_load(tiles[1]).to(tl.float16))
