"""Rows gathered in three ways: by TMA, by cp.async, and by ordinary loads; to global memory, or into shared memory only.

    grid, kernel, args, meta = launch_of("TMA", x, rows, y, programs=264, keeps=True)

Input: a matrix x of 16-bit elements, row numbers, a matrix y of as many rows. Output: y = x[rows], where `keeps`; else nothing but
the time that it takes to bring the rows on chip.
"""

from __future__ import annotations

import triton.language as tl

import mimw
import mimw.tlx as tlx

TILE_BYTES, STAGES = 16384, 4
WAYS = ("TMA", "cp.async", "tl.load")


def rows_of_tile(row_bytes: int) -> int:
    """How many rows go together: about TILE_BYTES, from 8 to 256 rows."""
    return min(256, max(8, TILE_BYTES // row_bytes))


@mimw.jit
def by_tma(x_desc, y_desc, rows_ptr, tiles, BX: tl.constexpr, BY: tl.constexpr, STAGES: tl.constexpr, KEEPS: tl.constexpr):
    """A task of four warps gathers, another stores whole tiles by TMA."""
    ring = tlx.local_alloc((BX, BY), tl.float16, STAGES)
    full, free = tlx.alloc_barriers(STAGES), tlx.alloc_barriers(STAGES)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            step = 0
            for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
                tlx.barrier_wait(full[step % STAGES], (step // STAGES) & 1)
                if KEEPS:
                    tlx.async_descriptor_store(y_desc, ring[step % STAGES], [tile * BX, 0])
                    tlx.async_descriptor_store_wait(1)
                    if step > 0:
                        tlx.barrier_arrive(free[(step - 1) % STAGES])
                else:
                    tlx.barrier_arrive(free[step % STAGES])
                step += 1
            tlx.async_descriptor_store_wait(0)
        with tlx.async_task(num_warps=4):
            step = 0
            for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
                rows = tl.load(rows_ptr + tile * BX + tl.arange(0, BX))
                tlx.barrier_wait(free[step % STAGES], ((step // STAGES) & 1) ^ 1)
                tlx.barrier_expect_bytes(full[step % STAGES], BX * BY * 2)
                tlx.async_descriptor_gather(x_desc, ring[step % STAGES], rows, 0, full[step % STAGES])
                step += 1


@mimw.jit
def start(x_ptr, rows_ptr, tile, slot, tiles, N, BX: tl.constexpr, BY: tl.constexpr):
    """One tile's rows as a group of cp.async; none behind the last tile."""
    at = tile * BX + tl.arange(0, BX)
    rows = tl.load(rows_ptr + at, mask=at < tiles * BX, other=0).to(tl.int64)
    tlx.async_load(x_ptr + rows[:, None] * N + tl.arange(0, BY)[None, :], slot, mask=(at < tiles * BX)[:, None])
    tlx.async_load_commit_group()


@mimw.jit
def by_cp_async(x_ptr, y_desc, rows_ptr, tiles, N, BX: tl.constexpr, BY: tl.constexpr, STAGES: tl.constexpr, KEEPS: tl.constexpr):
    """All warps copy, tiles ahead, and store whole tiles by TMA."""
    ring = tlx.local_alloc((BX, BY), tl.float16, STAGES)
    first, programs = tl.program_id(0), tl.num_programs(0)
    for step in tl.static_range(STAGES - 1):
        start(x_ptr, rows_ptr, first + step * programs, ring[step], tiles, N, BX, BY)
    step = 0
    for tile in range(first, tiles, programs):
        tlx.async_load_wait_group(STAGES - 2)
        if KEEPS:
            tlx.fence("async_shared")
            tlx.async_descriptor_store(y_desc, ring[step % STAGES], [tile * BX, 0])
            tlx.async_descriptor_store_wait(1)
        start(x_ptr, rows_ptr, tile + (STAGES - 1) * programs, ring[(step + STAGES - 1) % STAGES], tiles, N, BX, BY)
        step += 1
    tlx.async_load_wait_group(0)
    tlx.async_descriptor_store_wait(0)


@mimw.jit
def by_load(x_ptr, y_ptr, rows_ptr, N, BX: tl.constexpr, BY: tl.constexpr, KEEPS: tl.constexpr):
    """A program a tile, through registers: no word of ours, so stock Triton compiles it."""
    tile = tl.program_id(0)
    rows = tl.load(rows_ptr + tile * BX + tl.arange(0, BX)).to(tl.int64)
    across = tl.arange(0, BY)[None, :]
    found = tl.load(x_ptr + rows[:, None] * N + across)
    if KEEPS:
        tl.store(y_ptr + (tile * BX + tl.arange(0, BX)).to(tl.int64)[:, None] * BY + across, found)
    else:
        tl.store(y_ptr + tile, tl.sum(found.to(tl.float32)).to(tl.float16))     # so that the loads are wanted


def launch_of(way: str, x, rows, y, programs: int, keeps: bool) -> tuple:
    """(grid, kernel, args, meta) that gather `rows` of x, (M, N) in fp16, by one of WAYS; `keeps`: into y, of as many rows."""
    (_, width), count = x.shape, rows.shape[0]
    block = rows_of_tile(2 * width)
    if count % block:
        raise ValueError(f"{count} row numbers are no whole tiles of {block} rows")
    tiles = count // block
    meta = dict(BX=block, BY=width, KEEPS=keeps, num_warps=4)
    if way == "tl.load":
        return (tiles, ), by_load, (x, y, rows, width), meta
    describe = mimw.TensorDescriptor.from_tensor
    target = describe(y, [block, width])
    if way == "TMA":
        return (min(programs, tiles), ), by_tma, (describe(x, [1, width]), target, rows, tiles), meta | {"STAGES": STAGES}
    return (min(programs, tiles), ), by_cp_async, (x, target, rows, tiles, width), meta | {"STAGES": STAGES}
