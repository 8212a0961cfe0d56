"""The kernels by which benchmarks/distributed_constants.py measures what lies between GPUs: each begins and ends in a barrier of
all ranks, so that launches which follow each other run in step on both sides, and their time is that of the slower one.

    grid, kernel, args, meta = launch_of("TMA", x, y, world, programs=8, passes=1, source=0, target=1, both=True)

Input: symmetric arrays `x` and `y` of int32 and a world: a `mimw.World`, or one of `mimw.distributed`. Output: a launch. Ranks are
paired, 0 with 1 and 2 with 3; `source` and `target` say whose memory is read and written: 0 a rank's own, 1 that of the other of
its pair. So (0, 1) is a put, (1, 0) a get, (0, 0) a copy on one GPU. After a put or a get `y` holds what `x` of the other does.
"""

from __future__ import annotations

import triton.language as tl

import mimw
import mimw.tlx as tlx

VECTOR, CHUNK = 8192, 4096      # elements of int32 that a program moves at a time: by loads and stores, by one bulk copy
STAGES, UNREAD = 12, 4          # chunks in shared memory; how many of them may be on their way out
WAYS = ("vectors", "TMA")
NUMBERS = ["tiles", "passes", "source", "target", "alone"]      # one binary for all of them


@mimw.jit
def other_of_pair(world):
    me = tlx.world_rank(world)
    return me + 1 - 2 * (me % 2)


@mimw.jit(do_not_specialize=NUMBERS)
def by_vectors(x, y, world, tiles, passes, source, target, alone, N: tl.constexpr):
    """`passes` times all tiles by loads and stores; of a pair the odd rank only waits if it lets the other one work `alone`."""
    me, peer = tlx.world_rank(world), other_of_pair(world)
    here = tlx.peer_pointer(x, me + source * (peer - me), world)
    there = tlx.peer_pointer(y, me + target * (peer - me), world)
    tlx.world_barrier(world)
    if me % 2 * alone == 0:
        for _ in range(passes):
            for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
                at = tile * N + tl.arange(0, N)
                tl.store(there + at, tl.load(here + at, cache_modifier=".cg"))      # not out of L1, in the next pass
    tlx.world_barrier(world)


@mimw.jit(do_not_specialize=NUMBERS)
def by_tma(x, y, world, tiles, passes, source, target, alone, N: tl.constexpr, STAGES: tl.constexpr, UNREAD: tl.constexpr):
    """The same by bulk copies through a ring in shared memory; a slot is filled again when its copy out is UNREAD copies old."""
    me, peer = tlx.world_rank(world), other_of_pair(world)
    here = tlx.peer_pointer(x, me + source * (peer - me), world)
    there = tlx.peer_pointer(y, me + target * (peer - me), world)
    first, step = tl.program_id(0), tl.num_programs(0)
    ring, full = tlx.local_alloc((N, ), tl.int32, STAGES), tlx.alloc_barriers(STAGES)
    mine = (tiles - first + step - 1) // step
    AHEAD: tl.constexpr = STAGES - UNREAD
    tlx.world_barrier(world)
    count = mine * passes if me % 2 * alone == 0 else 0
    for t in range(min(AHEAD, count)):
        tlx.barrier_expect_bytes(full[t], N * 4)
        tlx.async_load(here + (first + t % mine * step) * N, ring[t], bulk=True, barrier=full[t])
    for t in range(count):
        tlx.barrier_wait(full[t % STAGES], (t // STAGES) & 1)
        tlx.async_store(there + (first + t % mine * step) * N, ring[t % STAGES], N * 4)
        tlx.async_descriptor_store_wait(UNREAD)
        after = t + AHEAD
        if after < count:
            tlx.barrier_expect_bytes(full[after % STAGES], N * 4)
            tlx.async_load(here + (first + after % mine * step) * N, ring[after % STAGES], bulk=True, barrier=full[after % STAGES])
    tlx.async_descriptor_store_wait(0)
    tlx.world_barrier(world)


@mimw.jit(do_not_specialize=["rounds"])
def round_trips(flag, world, rounds):
    """The even rank of a pair signals, the odd one answers; the flag is 0 again at the end."""
    me = tlx.world_rank(world)
    told = tlx.peer_pointer(flag, other_of_pair(world), world)
    tlx.world_barrier(world)
    for r in range(rounds):
        if me % 2 == 1:
            tlx.wait_signal(flag, r + 1)
        tlx.signal(told)
        if me % 2 == 0:
            tlx.wait_signal(flag, r + 1)
    tlx.world_barrier(world)
    tl.store(flag, 0)


@mimw.jit(do_not_specialize=["rounds"])
def meetings(world, rounds):
    """So many barriers of all ranks behind each other, of every program with its like."""
    for _ in range(rounds):
        tlx.world_barrier(world)


@mimw.jit(do_not_specialize=["rounds", "target"])
def chain(links, out, world, rounds, target):
    """So many loads, each from where the one before points, of a rank's own memory or of the other one's."""
    me, at = tlx.world_rank(world), 0
    there = tlx.peer_pointer(links, me + target * (other_of_pair(world) - me), world)
    tlx.world_barrier(world)
    for _ in range(rounds):
        at = tl.load(there + at)
    tl.store(out, at)
    tlx.world_barrier(world)


@mimw.jit
def waited(world, cycles):
    """How long this rank waits for the others at the start, in cycles of its SM: what the last one to come waits is the barrier."""
    start = tlx.clock64()
    tlx.world_barrier(world)
    tl.store(cycles, tlx.clock64() - start)


def tile_of(way: str) -> int:
    """Elements of a program's step: arrays are multiples of it."""
    return VECTOR if way == "vectors" else CHUNK


def launch_of(way: str, x, y, world, programs: int, passes: int, source: int, target: int, both: bool, elements: int,
              **meta) -> tuple:
    """(grid, kernel, args, meta) that move the first `elements` of the arrays by one of WAYS."""
    size = meta.pop("N", tile_of(way))
    if elements % size:
        raise ValueError(f"{elements} elements are no whole tiles of {size}")
    args = (x, y, world, elements // size, passes, source, target, int(not both))
    if way == "vectors":
        return (programs, ), by_vectors, args, dict(N=size, num_warps=16) | meta
    return (programs, ), by_tma, args, dict(N=size, STAGES=STAGES, UNREAD=UNREAD, num_warps=4) | meta
