"""A matrix that is spread over GPUs, clusters and blocks, and is spread in another way, some times in a row.

Input: two `ShardingSpec`s of one mesh whose first axes are devices. Output: a launch, as (kernel, grid, args, meta), whose arrays
are a `mimw.World`'s; and what it should leave. An example:

    launch, expected = changing(tle.sharding(MESH, ["device"]), tle.sharding(MESH))
    mimw.simulate(*launch[:2], *launch[2])
    assert all((y == want).all() for y, want in zip(launch[2][1], expected))

Shapes: a matrix of 16 x 32 small integers, another one each time. It plants no mistakes. `shards_of_others` reads the shard of
another program of the mesh {"device": 2, "cluster_x": 2} where it lies.
"""

import numpy as np
import triton.language as tl

import mimw
import mimw.tle as tle

M, N = 16, 32


@mimw.jit
def change(x, y, world, have: tl.constexpr, want: tl.constexpr, M: tl.constexpr, N: tl.constexpr, M1: tl.constexpr,
           N1: tl.constexpr, M2: tl.constexpr, N2: tl.constexpr, TIMES: tl.constexpr):
    """The shards of x, [TIMES, programs, M1, N1] at each rank, as `want` has them: y, [TIMES, programs, M2, N2]."""
    mesh = tle.bind_mesh(have.mesh, world)
    old = tl.arange(0, M1)[:, None] * N1 + tl.arange(0, N1)[None, :]
    new = tl.arange(0, M2)[:, None] * N2 + tl.arange(0, N2)[None, :]
    for time in range(TIMES):
        program = time * tl.num_programs(0) + tl.program_id(0)
        shard = tle.make_sharded_tensor(tl.load(x + program * M1 * N1 + old), tle.sharding(mesh, have.split, have.partial), [M, N])
        tl.store(y + program * M2 * N2 + new, tle.reshard(shard, want).handle)


@mimw.jit
def shards_of_others(x, y, world, MESH: tl.constexpr, KIND: tl.constexpr):
    """The shard of the other GPU's other CTA, read through `tle.remote`."""
    mesh = tle.bind_mesh(MESH, world)
    there = 1 - tle.shard_id(mesh, "device"), 1 - tle.shard_id(mesh, "cluster_x")
    sharded = tle.make_sharded_tensor(x, tle.sharding(mesh, ["cluster_x", "device"]), [16, 32])
    if KIND == "coordinates":
        pointers = tle.remote(sharded, there)
    if KIND == "number":
        pointers = tle.remote(sharded, 2 * there[0] + there[1], scope=mesh)
    if KIND == "box":
        at = tl.arange(0, 8)[:, None] * 16 + tl.arange(0, 16)[None, :]
        pointers = tle.remote(tle.make_sharded_tensor(x + there[1] * 128 + at, tle.sharding(mesh)), there)
    place = tl.arange(0, 8)[:, None] * 16 + tl.arange(0, 16)[None, :]
    tl.store(y + tl.program_id(0) * 128 + place, tl.load(pointers))


def pieces(whole, spec, seed):
    """Shards of a matrix [mesh size, ...] by a spec, as numpy would cut it; shards that are partial add up to it."""
    mesh, shards, random = spec.mesh, [], np.random.default_rng(seed)
    partial = {}
    for number in range(mesh.size):
        at = dict(zip(mesh.dim_names, np.unravel_index(number, mesh.shape)))
        index = []
        for axis in range(whole.ndim):
            piece = 0
            for name in spec.split[axis] if axis < len(spec.split) else ():
                piece = piece * spec.extent(name) + at[name]
            size = whole.shape[axis] // spec.factor(axis)
            index.append(slice(piece * size, (piece + 1) * size))
        shard = whole[tuple(index)]
        if spec.partial:
            rest = tuple((name, at[name]) for name in mesh.dim_names if name not in spec.partial)
            last = all(at[name] == spec.extent(name) - 1 for name in spec.partial)
            sum_ = partial.setdefault(rest, np.zeros_like(shard))
            shard = shard - sum_ if last else random.integers(-8, 8, shard.shape).astype(whole.dtype)
            partial[rest] = sum_ + shard
        shards.append(shard)
    return np.stack(shards)


def shards(have, want, dtype=np.float32, times=2):
    """What each rank has, and what it should get: arrays [ranks, times, programs, rows, columns]."""
    wholes = [np.random.default_rng(seed).integers(-8, 8, (M, N)).astype(dtype) for seed in range(times)]
    gpus = gpus_of(have.mesh)
    return tuple(np.ascontiguousarray(found.reshape(times, gpus, -1, *found.shape[2:]).swapaxes(0, 1))
                 for found in (np.stack([pieces(whole, spec, 1) for whole in wholes]) for spec in (have, want)))


def gpus_of(mesh):
    return int(np.prod([size for name, size in zip(mesh.dim_names, mesh.shape) if "cluster" not in name and "block" not in name]))


def grid_of(mesh):
    """One cluster, or as many programs as the mesh has blocks."""
    return (mesh.launch_size if mesh.is_block_mesh else 1, )


def constants(have, want, times=2):
    return have, want, M, N, M // have.factor(0), N // have.factor(1), M // want.factor(0), N // want.factor(1), times


def changing(have, want, dtype=np.float32, times=2):
    x, expected = shards(have, want, dtype, times)
    world = mimw.World(len(x))
    out = world.each(lambda rank: np.zeros_like(expected[rank]), "y")
    return (change, grid_of(have.mesh), (world.each(x, "x"), out, world, *constants(have, want, times)), {}), expected
