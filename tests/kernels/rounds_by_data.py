"""Kernels whose course depends on what they read, by a loop or a branch, and a loop that starts its tasks anew.

Shapes: `told` is one int32; buffers are SIZE elements, a power of two. HOW and COPIED say by which words the number gets into
shared memory, or out of it: who predicts a launch has to follow the number through each. No mistake can be planted.
"""

import triton.language as tl

import mimw
from mimw import tle, tlx


@mimw.jit
def until_small(x, out, SIZE: tl.constexpr, COPIED: tl.constexpr):
    """Halves until all is small: how often depends on what a copy brings, or if COPIED is false a load."""
    buffer = tlx.local_alloc((SIZE, ), tl.float32, 1)
    at = tl.arange(0, SIZE)
    if COPIED:
        tlx.async_load(x + at, buffer[0])
        tlx.async_load_commit_group()
        tlx.async_load_wait_group(0)
    else:
        tlx.local_store(buffer[0], tl.load(x + at))
    highest = 2.0
    while highest > 1.0:
        value = tlx.local_load(buffer[0]) * 0.5
        tlx.local_store(buffer[0], value)
        highest = tl.max(value, 0)
    tl.store(out + at, tlx.local_load(buffer[0]))


@mimw.jit
def started_in_a_loop(out, n):
    """Tasks that a loop starts anew."""
    for i in range(n):
        with tlx.async_tasks():
            with tlx.async_task("default"):
                tl.store(out + i, 1)
            with tlx.async_task(num_warps=1):
                tl.store(out + n + i, 1)


@mimw.jit
def as_often_as_told(told, out, SIZE: tl.constexpr, HOW: tl.constexpr):
    """As many rounds as the number `told`, which goes through shared memory in the way HOW; each round reads a buffer."""
    buffer = tle.gpu.alloc((SIZE, ), tl.int32)
    tiles = tlx.local_alloc((128, ), tl.float32, 1)
    at = tl.arange(0, SIZE)
    number = tl.full((SIZE, ), tl.load(told), tl.int32)
    place = tle.gpu.local_ptr(buffer, (at, ))
    tl.store(place, tl.zeros((SIZE, ), tl.int32))
    if HOW == "pointers":
        tl.store(tle.gpu.local_ptr(buffer, (at * 5 % SIZE, )), number)
    elif HOW == "masked":
        tl.store(place, number, mask=at % 3 == 0)
    elif HOW == "atomics":
        tl.atomic_add(place, number)
    elif HOW == "old values":
        tl.store(place, number)
        number = tl.atomic_max(place, tl.full((SIZE, ), 3, tl.int32))
    rounds = tl.max(number if HOW == "old values" else tl.load(place), 0)
    total = tl.zeros((128, ), tl.float32)
    tlx.local_store(tiles[0], total)
    for _ in range(rounds):
        total += tlx.local_load(tiles[0])
    tl.store(out + tl.arange(0, 128), total)


PAIR = tle.device_mesh({"block_cluster": [("cta", 2)]})


@mimw.jit
def told_by_a_peer(told, out, SIZE: tl.constexpr, HOW: tl.constexpr):
    """As many rounds as CTA 0's buffer says, into which the whole cluster writes; HOW "memory" goes by `told` itself."""
    buffer = tle.gpu.alloc((SIZE, ), tl.int32)
    at = tl.arange(0, SIZE)
    number = tl.load(told)
    place = tle.gpu.local_ptr(buffer, (at, ))
    tl.store(place, tl.zeros((SIZE, ), tl.int32))
    tle.distributed_barrier(PAIR)
    there = tle.remote(place, 0, scope=PAIR)
    if HOW == "atomics":
        tl.atomic_add(there, tl.full((SIZE, ), number, tl.int32))
    else:
        tl.store(there, tl.full((SIZE, ), number, tl.int32))
    tle.distributed_barrier(PAIR)
    seen = tl.load(there if HOW == "loads" else place)
    rounds = tl.max(seen, 0) if HOW != "memory" else number
    for i in range(rounds):
        tl.store(out + i % SIZE, i)
    tl.store(out + at, seen)


@mimw.jit
def branches(x, out, limit, SIZE: tl.constexpr):
    """One branch on an argument, one on data of a copy."""
    buffer = tlx.local_alloc((SIZE, ), tl.float32, 1)
    at = tl.arange(0, SIZE)
    tlx.async_load(x + at, buffer[0])
    tlx.async_load_commit_group()
    tlx.async_load_wait_group(0)
    value = tlx.local_load(buffer[0])
    if limit > 3:
        value = value * 2
    if tl.max(value, 0) > 1.0:
        value = value / 2
    tl.store(out + at, value)


@mimw.jit
def told_in_tiles(x, words, out, SIZE: tl.constexpr):
    """A branch on a tile that this kernel has stored into `words`; what it stores into `out` decides nothing."""
    at = tl.arange(0, SIZE)
    tl.store(words + at, tl.load(x + at) + 1)
    tl.store(out + at, at, mask=at < SIZE - 1)
    if tl.max(tl.load(words + SIZE - 1 - at), 0) > 3:
        tl.store(out + SIZE - 1, 1)
