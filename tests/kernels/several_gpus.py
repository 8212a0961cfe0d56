"""Kernels on several GPUs, small: an exchange in rounds, a stream with answers, an all-gather whose shards are used as they arrive.

Input: a number of ranks. Output: a launch, as (kernel, grid, args, meta), whose arrays are a `mimw.World`'s; and what it should
leave. An example:

    kernel, grid, args, meta = gathering(4)
    mimw.simulate(kernel, grid, *args, **meta)
    assert all((out == expected).all() for out, expected in zip(args[2], gathered(4)))

Shapes are small, and multiples of what bulk copies take. None of these makes a mistake; benchmarks/mutants.py makes them.
"""

import numpy as np
import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

TWO = tle.device_mesh({"device": 2})


@mimw.jit
def exchange(x, y, z, flag, world, ROUNDS: tl.constexpr, N: tl.constexpr, MESH: tl.constexpr):
    """Each round the two ranks swap what they have by stores and add the round, then swap that by bulk copies, then meet."""
    mesh = tle.bind_mesh(MESH, world)
    program = tl.program_id(0)
    at = program * N + tl.arange(0, N)
    peer = 1 - tle.shard_id(mesh, "device")
    there, told = tlx.peer_pointer(x, peer, world), tlx.peer_pointer(flag, peer, world) + program
    tile = tlx.local_alloc((N, ), tl.float32, 1)
    for r in range(ROUNDS):
        tl.store(there + at, tl.load(y + at) + r)
        tlx.signal(told)
        tlx.wait_signal(flag + program, 2 * r + 1)
        tlx.local_store(tile[0], tl.load(x + at))
        tlx.fence("async_shared")
        tlx.async_store(tlx.peer_pointer(z, peer, world) + program * N, tile[0], N * 4)
        tlx.async_descriptor_store_wait(0)
        tlx.signal(told)
        tlx.wait_signal(flag + program, 2 * r + 2)
        tl.store(y + at, tl.load(z + at))
        tle.distributed_barrier(mesh)


def exchanging(rounds=3, n=32, programs=1, mesh=TWO, grid=None):
    world = mimw.World(2)
    x, z = (world.symmetric(programs * n, "float32", name) for name in "xz")
    flag = world.symmetric(programs, "int32", "flag")
    y = world.each(lambda rank: np.full(programs * n, rank + 1, np.float32), "y")
    return exchange, (grid or programs, ), (x, y, z, flag, world, rounds, n, mesh), {}


def exchanged(rounds, n, programs=1):
    """What goes to the peer by stores comes back by bulk copies: every round adds its number."""
    return [np.full(programs * n, rank + 1 + rounds * (rounds - 1) // 2, np.float32) for rank in range(2)]


@mimw.jit
def stream(x, flag, back, y, world, ROUNDS: tl.constexpr):
    """Rank 0 puts a number a round; rank 1 takes each, and answers so that rank 0 may put the next."""
    if tlx.world_rank(world) == 0:
        for r in range(ROUNDS):
            tlx.wait_signal(back, r)
            tl.store(tlx.peer_pointer(x, 1, world), r + 1)
            tlx.signal(tlx.peer_pointer(flag, 1, world))
    else:
        for r in range(ROUNDS):
            tlx.wait_signal(flag, r + 1)
            tl.store(y + r, tl.load(x))
            tlx.signal(tlx.peer_pointer(back, 0, world))


def streaming(rounds=4):
    world = mimw.World(2)
    x, flag, back = (world.symmetric(1, "int32", name) for name in ("x", "flag", "back"))
    return stream, (1, ), (x, flag, back, world.each(lambda rank: np.zeros(rounds, np.int32), "y"), world, rounds), {}


@mimw.jit
def gather(x, whole, out, flags, world, N: tl.constexpr):
    """`x`, N x N at each rank, becomes `whole` at every rank; out is twice that, shard by shard as they arrive.

    One task puts the rank's own shard everywhere by TMA and signals each peer; the other takes its own shard first, then waits for
    the shards of its neighbours in turn."""
    me, size = tlx.world_rank(world), tlx.world_size(world)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            rows = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
            for step in range(size):
                shard = (me + size - step) % size
                tlx.wait_signal(flags + shard, 1)
                tl.store(out + shard * N * N + rows, tl.load(whole + shard * N * N + rows) * 2)
        with tlx.async_task(num_warps=4):
            tile = tlx.local_alloc((N, N), tl.float32, 1)
            tlx.local_store(tile[0], tl.load(x + tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]))
            tlx.fence("async_shared")
            for step in range(size):
                peer = (me + step) % size
                there = tl.make_tensor_descriptor(tlx.peer_pointer(whole, peer, world) + me * N * N, [N, N], [N, 1], [N, N])
                tlx.async_descriptor_store(there, tile[0], [0, 0])
                tlx.async_descriptor_store_wait(0)
                tlx.signal(tlx.peer_pointer(flags, peer, world) + me, op="set")


def gathering(gpus=4, n=16):
    world = mimw.World(gpus)
    x = world.each(lambda rank: np.full((n, n), rank + 1, np.float32), "x")
    whole, flags = world.symmetric((gpus, n, n), "float32", "whole"), world.symmetric(gpus, "int32", "flags")
    out = world.each(lambda rank: np.zeros((gpus, n, n), np.float32), "out")
    return gather, (1, ), (x, whole, out, flags, world, n), {}


def gathered(gpus=4, n=16):
    """What every rank's `out` should be."""
    return np.broadcast_to(2 * np.arange(1, gpus + 1, dtype=np.float32)[:, None, None], (gpus, n, n))
