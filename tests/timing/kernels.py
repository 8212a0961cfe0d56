"""Small kernels whose time can be worked out by hand."""

import numpy as np
import triton.language as tl

import mimw
from mimw import tle, tlx


@mimw.jit
def product(a_desc, b_desc, out, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr):
    """out (M, N) = a (M, K) b (K, N), by one producer and one consumer over a ring of STAGES slots."""
    a_tiles = tlx.local_alloc((M, BK), tlx.dtype_of(a_desc), STAGES)
    b_tiles = tlx.local_alloc((BK, N), tlx.dtype_of(b_desc), STAGES)
    full = tlx.alloc_barriers(STAGES)
    free = tlx.alloc_barriers(STAGES)
    with tlx.async_tasks():
        with tlx.async_task("default"):  # consumer
            acc = tl.zeros((M, N), tl.float32)
            for k in range(0, tl.cdiv(K, BK)):
                slot, phase = tlx.warp_spec.get_bufidx_phase(k, STAGES)
                tlx.barrier_wait(full[slot], phase)
                acc = tlx.async_dot(a_tiles[slot], b_tiles[slot], acc)
                acc = tlx.async_dot_wait(0, acc)
                tlx.barrier_arrive(free[slot])
            tl.store(out + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :], acc)
        with tlx.async_task(num_warps=1):  # producer
            for k in range(0, tl.cdiv(K, BK)):
                slot, phase = tlx.warp_spec.get_bufidx_phase(k, STAGES)
                tlx.barrier_wait(free[slot], phase ^ 1)
                tlx.barrier_expect_bytes(full[slot], (M + N) * BK * 2)
                tlx.async_descriptor_load(a_desc, a_tiles[slot], [0, k * BK], full[slot])
                tlx.async_descriptor_load(b_desc, b_tiles[slot], [k * BK, 0], full[slot])


def product_case(k=1024, m=64, n=64, stages=4, fill=np.empty):
    """(kernel, grid, args, meta) of one program."""
    a, b, out = fill((m, k), np.float16), fill((k, n), np.float16), np.zeros((m, n), np.float32)
    describe = mimw.TensorDescriptor.from_tensor
    return product, (1, ), (describe(a, [m, 64]), describe(b, [64, n]), out, k), dict(M=m, N=n, BK=64, STAGES=stages)


@mimw.jit
def drawn(counter, order_of, tiles, LIMIT: tl.constexpr):
    """Tiles drawn from a counter: the number goes through shared memory to the task that works on it."""
    slot = tlx.local_alloc((1, ), tl.int32, 1)
    full = tlx.alloc_barriers(1)
    free = tlx.alloc_barriers(1)
    with tlx.async_tasks():
        with tlx.async_task("default"):  # worker
            turn = 0
            tile = tl.program_id(0)
            while tile < tiles:
                tl.store(order_of + tile, tl.program_id(0))
                tlx.barrier_wait(full[0], turn % 2)
                tile = tl.max(tlx.local_load(slot[0]), 0)
                tlx.barrier_arrive(free[0])
                turn += 1
        with tlx.async_task(num_warps=1):  # scheduler
            turn = 0
            tile = tl.program_id(0)
            while tile < tiles:
                tile = tl.atomic_add(counter, 1) + tl.num_programs(0)
                tlx.barrier_wait(free[0], turn % 2 ^ 1)
                tlx.local_store(slot[0], tl.full((1, ), tile, tl.int32))
                tlx.barrier_arrive(full[0])
                turn += 1


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
