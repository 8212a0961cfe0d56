"""Truth tables of barriers among the CTAs of a mesh: a cluster, a part of it, a whole grid."""

import numpy as np
import triton.language as tl

import mimw
import mimw.tle as tle

from .tables import right, rows, states

PAIR, FOUR, GRID = tle.device_mesh({"cluster": 2}), tle.device_mesh({"cluster": 4}), tle.device_mesh({"block": 2})


@mimw.jit
def reading(y_ptr, mesh: tl.constexpr, BEFORE: tl.constexpr, AFTER: tl.constexpr):
    """Each CTA of a pair reads the other's tile, twice; the tile is written in between."""
    tile = tle.gpu.alloc([32], tl.int32)
    rank, at = tle.shard_id(mesh, 0), tl.arange(0, 32)
    for step in tl.static_range(2):
        tl.store(tle.gpu.local_ptr(tile), at + step)
        if BEFORE:
            tle.distributed_barrier(mesh)
        tl.store(y_ptr + rank * 32 + at, tl.load(tle.gpu.local_ptr(tle.remote(tile, 1 - rank))))
        if AFTER:
            tle.distributed_barrier(mesh)


@states("distributed_barrier")
def read_across(before=True, after=True):
    return reading, 1, (np.zeros((2, 32), np.int32), PAIR, before, after), {}


@rows("before", "after")
def test_a_cluster_meets(before, after):
    """Right iff the pair meets between write and read, and between read and the next write."""
    assert right(read_across(before, after)) == (before and after)


@mimw.jit
def writing(y_ptr, mesh: tl.constexpr, LOW: tl.constexpr, HIGH: tl.constexpr):
    """CTA 0 writes into CTA 1, and CTA 2 into CTA 3; each half of the cluster meets or does not."""
    tile = tle.gpu.alloc([32], tl.int32)
    rank, at = tle.shard_id(mesh, 0), tl.arange(0, 32)
    if rank % 2 == 0:
        tl.store(tle.gpu.local_ptr(tle.remote(tile, rank + 1)), at)
    if LOW:
        tle.distributed_barrier(mesh[0:2])
    if HIGH:
        tle.distributed_barrier(mesh[2:4])
    if rank % 2 == 1:
        tl.store(y_ptr + rank * 32 + at, tl.load(tle.gpu.local_ptr(tile)))


@states("distributed_barrier")
def written_across(low=True, high=True):
    return writing, 1, (np.zeros((4, 32), np.int32), FOUR, low, high), {}


@rows("low", "high")
def test_parts_of_a_cluster_meet(low, high):
    """Right iff both halves meet: the barrier of one orders nothing in the other."""
    assert right(written_across(low, high)) == (low and high)


@mimw.jit
def handing(y_ptr, out_ptr, mesh: tl.constexpr, BEFORE: tl.constexpr, AFTER: tl.constexpr):
    """Two programs hand each other a number through global memory, twice through one place."""
    me = tl.program_id(0)
    for step in tl.static_range(2):
        tl.store(y_ptr + me, me + step)
        if BEFORE:
            tle.distributed_barrier(mesh)
        tl.store(out_ptr + 2 * me + step, tl.load(y_ptr + 1 - me, cache_modifier=".cg"))
        if AFTER:
            tle.distributed_barrier(mesh)


@states("distributed_barrier")
def handed_on(before=True, after=True):
    return handing, 2, (np.zeros(2, np.int32), np.zeros(4, np.int32), GRID, before, after), {}


@rows("before", "after")
def test_a_grid_meets(before, after):
    """Right iff all meet between write and read, and between read and the next write."""
    assert right(handed_on(before, after)) == (before and after)
