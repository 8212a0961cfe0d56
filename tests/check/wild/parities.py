"""Parities that went by something else than the phases of the barrier waited on."""

import numpy as np
import triton.language as tl

import mimw
import mimw.tlx as tlx

from .case import case, describe


@mimw.jit
def slot_by_slot(x_desc, y_ptr, MENDED: tl.constexpr):
    """Four tiles, each with a barrier of its own, loaded and waited for one after the other."""
    tiles = tlx.local_alloc((16, 32), tl.float16, 4)
    bar = tlx.alloc_barriers(4)
    at = tl.arange(0, 16)[:, None] * 32 + tl.arange(0, 32)[None, :]
    for s in tl.static_range(4):
        tlx.barrier_expect_bytes(bar[s], 1024)
        tlx.async_descriptor_load(x_desc, tiles[s], [s * 16, 0], bar[s])
        tlx.barrier_wait(bar[s], 0 if MENDED else s & 1)
        tl.store(y_ptr + s * 512 + at, tlx.local_load(tiles[s]))


@case("tile-ai/tilelang#2927", kind="CopyReadEarly", lines=("async_descriptor_load", "local_load"))
def parity_from_the_loop(mended):
    """The parity of a wait is that of the loop's round, though every round has a barrier of its own, in its first phase."""
    x, y = np.ones((64, 32), np.float16), np.zeros((64, 32), np.float16)
    return slot_by_slot, 1, (describe(x, [16, 32]), y, mended), {}


@mimw.jit
def one_barrier(x_desc, y_ptr, steps, MENDED: tl.constexpr):
    """A ring of three tiles with a single barrier, which turns every round."""
    tiles = tlx.local_alloc((16, 32), tl.float16, 3)
    bar = tlx.alloc_barriers(1)
    at = tl.arange(0, 16)[:, None] * 32 + tl.arange(0, 32)[None, :]
    for k in range(steps):
        tlx.barrier_expect_bytes(bar[0], 1024)
        tlx.async_descriptor_load(x_desc, tiles[k % 3], [k * 16, 0], bar[0])
        tlx.barrier_wait(bar[0], (k if MENDED else k // 3) & 1)
        tl.store(y_ptr + k * 512 + at, tlx.local_load(tiles[k % 3]))


@case("tile-ai/tilelang#3087", kind="CopyReadEarly", lines=("async_descriptor_load", "local_load"))
def parity_of_a_ring_for_one_barrier(mended):
    """A barrier that turns every round is waited for with the parity of a ring, (k / stages) % 2, and passes at once."""
    x, y = np.ones((80, 32), np.float16), np.zeros((80, 32), np.float16)
    return one_barrier, 1, (describe(x, [16, 32]), y, 5, mended), {}


@mimw.jit
def persistent(x_desc, y_ptr, tiles, steps, MENDED: tl.constexpr):
    """Programs share the tiles out among themselves; each tile is a sum of `steps` blocks, through a ring of two slots."""
    ring = tlx.local_alloc((16, 32), tl.float16, 2)
    full, free = tlx.alloc_barriers(2), tlx.alloc_barriers(2)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            at = tl.arange(0, 16)[:, None] * 32 + tl.arange(0, 32)[None, :]
            used = 0
            for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
                total = tl.zeros((16, 32), tl.float32)
                for k in range(steps):
                    at_ring = used if MENDED else k
                    tlx.barrier_wait(full[at_ring % 2], (at_ring // 2) & 1)
                    total += tlx.local_load(ring[at_ring % 2]).to(tl.float32)
                    tlx.barrier_arrive(free[at_ring % 2])
                    used += 1
                tl.store(y_ptr + tile * 512 + at, total)
        with tlx.async_task(num_warps=1):
            used = 0
            for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
                for k in range(steps):
                    at_ring = used if MENDED else k
                    tlx.barrier_wait(free[at_ring % 2], ((at_ring // 2) & 1) ^ 1)
                    tlx.barrier_expect_bytes(full[at_ring % 2], 1024)
                    tlx.async_descriptor_load(x_desc, ring[at_ring % 2], [k * 16, 0], full[at_ring % 2])
                    used += 1


@case("tile-ai/tilelang#2674", kind="TooManyArrivals", lines=("barrier_expect_bytes(full", ), by="rounds")
def phases_that_start_anew_with_each_tile(mended):
    """The phase is counted from the start of each tile, though the barriers go on: right if every program has one tile, or the loop
    is a multiple of twice the ring."""
    x, y = np.ones((64, 32), np.float16), np.zeros((4, 16, 32), np.float32)
    return persistent, 4, (describe(x, [16, 32]), y, 4, 4, mended), {}


@mimw.jit
def empty_rows(x_desc, y_ptr, rows, MENDED: tl.constexpr):
    """Rows of which every other one is empty: nothing is loaded for it."""
    tile = tlx.local_alloc((16, 32), tl.float16, 1)
    full, free = tlx.alloc_barriers(1), tlx.alloc_barriers(1)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            at = tl.arange(0, 16)[:, None] * 32 + tl.arange(0, 32)[None, :]
            phase = 0
            for row in range(rows):
                if row % 2 == 0:
                    tlx.barrier_wait(full[0], phase)
                    tl.store(y_ptr + row * 512 + at, tlx.local_load(tile[0]))
                    tlx.barrier_arrive(free[0])
                    if MENDED:
                        phase ^= 1
                if not MENDED:
                    phase ^= 1
        with tlx.async_task(num_warps=1):
            count = 0
            for row in range(rows):
                if row % 2 == 0:
                    tlx.barrier_wait(free[0], (count & 1) ^ 1)
                    tlx.barrier_expect_bytes(full[0], 1024)
                    tlx.async_descriptor_load(x_desc, tile[0], [row * 16, 0], full[0])
                    count += 1


@case("Dao-AILab/flash-attention#2258", kind="SlotReusedEarly", lines=("local_load", "async_descriptor_load"))
def a_phase_that_turns_for_an_empty_tile(mended):
    """A consumer's phase turns for a tile that is empty, for which nobody arrives."""
    x, y = np.ones((64, 32), np.float16), np.zeros((64, 32), np.float16)
    return empty_rows, 1, (describe(x, [16, 32]), y, 4, mended), {}
