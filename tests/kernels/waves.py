"""Kernels of tasks that every chip with tasks and barriers runs: rings, syncs inside tasks, one-wave tasks, regions, replicas.

Shapes: `x` is so many rows of N floats, `y` as many; `copied` takes rows of N half floats and gives tiles of 16 x 16. Mistakes:
`ring` takes FLIP=1, the filling task waits for the other phase, and EARLY=1, a slot is given back before it was waited for;
`meeting_all`, `too_large` and `nearly_too_large` are refused on gfx942.
"""

from __future__ import annotations

import triton.language as tl

import mimw
import mimw.tlx as tlx


@mimw.jit
def ring(x, y, rows, N: tl.constexpr, STAGES: tl.constexpr, WARPS: tl.constexpr, FLIP: tl.constexpr = 0, EARLY: tl.constexpr = 0):
    """Each row times its sum, from a ring that a task of WARPS warps fills. FLIP and EARLY are mistakes for `check`."""
    tiles = tlx.local_alloc((N, ), tl.float32, STAGES)
    full = tlx.alloc_barriers(STAGES)
    free = tlx.alloc_barriers(STAGES)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            at = tl.arange(0, N)
            for i in range(rows):
                slot = i % STAGES
                if EARLY:
                    tlx.barrier_arrive(free[slot])
                tlx.barrier_wait(full[slot], i // STAGES & 1)
                row = tlx.local_load(tiles[slot])
                if not EARLY:
                    tlx.barrier_arrive(free[slot])
                tl.store(y + i * N + at, row * tl.sum(row, 0))
        with tlx.async_task(num_warps=WARPS, num_regs=40):
            at = tl.arange(0, N)
            for i in range(rows):
                slot = i % STAGES
                tlx.barrier_wait(free[slot], i // STAGES & 1 ^ 1 ^ FLIP)
                tlx.local_store(tiles[slot], tl.load(x + i * N + at))
                tlx.barrier_arrive(full[slot])


@mimw.jit
def _doubled(x, y, row, N: tl.constexpr):
    """One row, by way of its transposed square, which goes through shared memory, and a scan."""
    at = tl.arange(0, N)
    side: tl.constexpr = 32
    square = tl.trans(tl.reshape(tl.load(x + row * N + at), (side, N // side)))
    back = tl.reshape(tl.trans(square), (N, ))
    tl.store(y + row * N + at, tl.cumsum(back, 0) + tl.sum(back, 0))


@mimw.jit
def regions(x, y, N: tl.constexpr):
    """Two regions whose tasks have other sizes in the same places, and code of the default task between them."""
    with tlx.async_tasks():
        with tlx.async_task("default"):
            _doubled(x, y, 0, N)
        with tlx.async_task(num_warps=4):
            _doubled(x, y, 1, N)
        with tlx.async_task(num_warps=2, replicate=2):
            _doubled(x, y, 2 + tlx.async_task_replica_id(), N)
    _doubled(x, y, 4, N)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            _doubled(x, y, 5, N)
        with tlx.async_task(num_warps=8):
            _doubled(x, y, 6, N)


@mimw.jit
def looped(x, y, rows, N: tl.constexpr):
    """A region in a loop; its worker is one warp, which meets nobody but others' barriers."""
    tile = tlx.local_alloc((N, ), tl.float32, 1)
    full = tlx.alloc_barriers(1)
    for i in range(rows):
        with tlx.async_tasks():
            with tlx.async_task("default"):
                at = tl.arange(0, N)
                tlx.barrier_wait(full[0], i & 1)
                row = tlx.local_load(tile[0])
                tl.store(y + i * N + at, row * tl.sum(row, 0))
            with tlx.async_task(num_warps=1):
                tlx.local_store(tile[0], tl.load(x + i * N + tl.arange(0, N)))
                tlx.barrier_arrive(full[0])


@mimw.jit
def by_warps(x, y, rows, N: tl.constexpr, WARPS: tl.constexpr):
    """Rows handed over by barriers on which each warp arrives for itself, some of them under a predicate."""
    tile = tlx.local_alloc((N, ), tl.float32, 1)
    full = tlx.alloc_warp_barrier(1, num_warps=WARPS)
    free = tlx.alloc_warp_barrier(1, num_warps=4)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            at = tl.arange(0, N)
            for i in range(rows):
                tlx.barrier_wait(full[0], i & 1)
                tl.store(y + i * N + at, tlx.local_load(tile[0]) * 2)
                tlx.barrier_arrive(free[0], pred=i + 1 < rows)
        with tlx.async_task(num_warps=WARPS):
            at = tl.arange(0, N)
            for i in range(rows):
                tlx.barrier_wait(free[0], i & 1 ^ 1, pred=i > 0)
                tlx.local_store(tile[0], tl.load(x + i * N + at))
                tlx.barrier_arrive(full[0])


@mimw.jit
def by_numbers(x, y, rows, N: tl.constexpr, WARPS: tl.constexpr):
    """Rows handed over by named barriers: one to which the filling task only comes, one at which both wait."""
    tile = tlx.local_alloc((N, ), tl.float32, 1)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            at = tl.arange(0, N)
            for i in range(rows):
                tlx.named_barrier_wait(9, 32 * (4 + WARPS))
                tl.store(y + i * N + at, tlx.local_load(tile[0]) * 2)
                tlx.named_barrier_wait(10, 32 * (4 + WARPS))
        with tlx.async_task(num_warps=WARPS):
            at = tl.arange(0, N)
            for i in range(rows):
                tlx.local_store(tile[0], tl.load(x + i * N + at))
                tlx.named_barrier_arrive(9, 32 * (4 + WARPS))
                tlx.named_barrier_wait(10, 32 * (4 + WARPS))


@mimw.jit
def copied(x, y, rows, N: tl.constexpr, STAGES: tl.constexpr):
    """Rows that a task of one warp copies into a ring without registers; a slot's products go to a tile of its own."""
    tiles = tlx.local_alloc((16, N // 16), tl.float16, STAGES)
    full = tlx.alloc_barriers(STAGES)
    free = tlx.alloc_barriers(STAGES)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            at = tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]
            for i in range(rows):
                slot = i % STAGES
                tlx.barrier_wait(full[slot], i // STAGES & 1)
                tile = tlx.local_load(tiles[slot])
                tlx.barrier_arrive(free[slot])
                tl.store(y + i * 256 + at, tl.dot(tile, tl.trans(tile)))
        with tlx.async_task(num_warps=1):
            at = tl.arange(0, 16)[:, None] * (N // 16) + tl.arange(0, N // 16)[None, :]
            for i in range(rows):
                slot = i % STAGES
                tlx.barrier_wait(free[slot], i // STAGES & 1 ^ 1)
                tlx.async_load(x + i * N + at, tiles[slot])
                tlx.async_load_commit_group()
                tlx.async_load_wait_group(0)
                tlx.barrier_arrive(full[slot])


@mimw.jit
def syncing(x, y, N: tl.constexpr, SYNCS: tl.constexpr, WARPS: tl.constexpr):
    """Two tasks that reduce SYNCS times, and so meet as often among themselves."""
    with tlx.async_tasks():
        with tlx.async_task("default"):
            row = tl.load(x + tl.arange(0, N))
            for _ in tl.static_range(SYNCS):
                row += tl.sum(row, 0)
                tl.debug_barrier()
            tl.store(y + tl.arange(0, N), row)
        with tlx.async_task(num_warps=WARPS):
            row = tl.load(x + N + tl.arange(0, N))
            for _ in tl.static_range(SYNCS):
                row += tl.sum(row, 0)
                tl.debug_barrier()
            tl.store(y + N + tl.arange(0, N), row)


@mimw.jit
def too_large(x, y, N: tl.constexpr, WARPS: tl.constexpr):
    """A buffer of N floats beside tasks that sync."""
    tile = tlx.local_alloc((N, ), tl.float32, 1)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tlx.local_store(tile[0], tl.load(x + tl.arange(0, N)))
        with tlx.async_task(num_warps=WARPS):
            tl.store(y + tl.arange(0, 64), tl.sum(tl.load(x + tl.arange(0, 64)), 0))


@mimw.jit
def meeting_all(x, y):
    """`s_barrier` in a task."""
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tl.store(y, 1.0)
        with tlx.async_task(num_warps=4):
            at = tl.arange(0, 64)
            tl.store(y + at, tl.inline_asm_elementwise("s_barrier\nv_mov_b32 $0, $1", "=v,v", [tl.load(x + at)],
                                                       dtype=tl.float32, is_pure=False, pack=1))


@mimw.jit
def divergent(x, y):
    """Warps that arrive right behind code which only some of their lanes ran."""
    done = tlx.alloc_warp_barrier(1, num_warps=1)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tlx.barrier_wait(done[0], 0)
            tlx.named_barrier_wait(9, 32 * 5)
            tl.store(y + 4, tl.load(x + 4))
        with tlx.async_task(num_warps=1):
            some = tlx.thread_id(0) % 32 == 3
            if some:
                tl.store(y, tl.load(x))
            tlx.barrier_arrive(done[0])
            if some:
                tl.store(y + 1, tl.load(x + 1))
            tlx.named_barrier_arrive(9, 32 * 5)
            if some:
                tl.store(y + 2, tl.load(x + 2))


@mimw.jit
def nearly_too_large(x, y, COUNT: tl.constexpr):
    """COUNT buffers of 8 bytes beside tasks that reduce."""
    pairs = tlx.local_alloc((2, ), tl.float32, COUNT)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            at = tl.arange(0, 2)
            tlx.local_store(pairs[0], tl.load(x + at))
            tl.store(y, tl.sum(tl.load(x + tl.arange(0, 256)), 0))
        with tlx.async_task(num_warps=4):
            tl.store(y + 1, tl.sum(tl.load(x + tl.arange(0, 256)), 0))


@mimw.jit
def working(x, y, i, WHAT: tl.constexpr):
    """A task that does one thing for which its waves meet, in a way of Triton's own."""
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tl.store(y + 4096, 1.0)
        with tlx.async_task(num_warps=4):
            at = tl.arange(0, 256)
            if WHAT == "scalar atomic":
                tl.store(y + tl.atomic_add(i, 1) + at, tl.load(x + at))
            elif WHAT == "lock":
                while tl.atomic_cas(i, 0, 1) == 1:
                    pass
                tl.store(y + at, tl.load(x + at))
                tl.atomic_xchg(i, 0)
            elif WHAT == "histogram":
                tl.store(y + tl.arange(0, 64), tl.histogram(tl.load(i + at), 64).to(tl.float32))
            elif WHAT == "gather":
                tl.store(y + at, tl.gather(tl.load(x + at), tl.load(i + at), 0))
            elif WHAT == "sort":
                tl.store(y + at, tl.sort(tl.load(x + at)))
            elif WHAT == "argmax":
                tl.store(y, tl.argmax(tl.load(x + at), 0).to(tl.float32))
            elif WHAT == "fence":
                tl.store(y + at, 1.0)
                tlx.fence("gpu")
                tl.atomic_xchg(i, 1)
            elif WHAT == "dot":
                row = tl.arange(0, 32)
                place = row[:, None] * 32 + row[None, :]
                tile = tl.load(x + place).to(tl.float16)
                tl.store(y + place, tl.dot(tile, tile))
