"""Truth tables of TLE's synchronising words, those that this package has."""

import numpy as np
import pytest
import triton
import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx
from mimw.ir import OPS

from .tables import right, rows, states

needs_meshes = pytest.mark.skipif(not hasattr(tle, "distributed_barrier"), reason="needs tle.distributed_barrier")
needs_pipes = pytest.mark.skipif("barrier_bytes" not in OPS, reason="needs tle.pipe")


@mimw.jit
def meeting(x_ptr, y_ptr, mesh: tl.constexpr, SIZE: tl.constexpr, BEFORE: tl.constexpr, AFTER: tl.constexpr):
    """Twice, each program writes a number that its neighbour among SIZE reads."""
    me = tl.program_id(0)
    neighbour = me // SIZE * SIZE + (me + 1) % SIZE
    for step in tl.static_range(2):
        tl.store(x_ptr + me, me + step)
        if BEFORE:
            tle.distributed_barrier(mesh)
        tl.store(y_ptr + 2 * me + step, tl.load(x_ptr + neighbour))
        if AFTER:
            tle.distributed_barrier(mesh)
    tlx.clock64()


def met(mesh, size, grid, before=True, after=True):
    return meeting, grid, (np.zeros(8, np.int32), np.zeros(16, np.int32), mesh, size, before, after), {}


if hasattr(tle, "distributed_barrier"):
    GRID = tle.device_mesh({"block": 4})
    CLUSTER = tle.device_mesh({"cluster": 2})
    SQUARE = tle.device_mesh({"block_cluster": [("row", 2), ("column", 2)]})
    MESHES = {"grid": (GRID, 4, 4), "cluster": (CLUSTER, 2, 2)}

    @states("distributed_barrier", "grid_barrier")
    def met_by_grid(before=True, after=True):
        return met(*MESHES["grid"], before, after)

    @states("distributed_barrier", "cluster_barrier")
    def met_by_cluster(before=True, after=True):
        return met(*MESHES["cluster"], before, after)

    @states("distributed_barrier", "group_barrier")
    def met_by_rows(before=True, after=True):
        return meeting_in_rows, 1, (np.zeros(8, np.int32), np.zeros(16, np.int32), SQUARE, before, after), {}


@needs_meshes
@pytest.mark.parametrize("mesh", ["grid", "cluster"])
@rows("before", "after")
def test_programs_that_meet(mesh, before, after):
    """Right iff all meet between write and read, and again before the next write."""
    assert right(met(*MESHES[mesh], before, after), "random") == (before and after)


@mimw.jit
def meeting_in_rows(x_ptr, y_ptr, mesh: tl.constexpr, BEFORE: tl.constexpr, AFTER: tl.constexpr):
    """As `meeting`, in each of the two rows of a square by itself."""
    row, column = tle.shard_id(mesh, "row"), tle.shard_id(mesh, "column")
    for step in tl.static_range(2):
        tl.store(x_ptr + 2 * row + column, column + step)
        if BEFORE:
            tle.distributed_barrier(mesh[0, :])
            tle.distributed_barrier(mesh[1, :])
        tl.store(y_ptr + 4 * row + 2 * column + step, tl.load(x_ptr + 2 * row + 1 - column))
        if AFTER:
            tle.distributed_barrier(mesh[0, :])
            tle.distributed_barrier(mesh[1, :])
    tlx.clock64()


@needs_meshes
@rows("before", "after")
def test_rows_that_meet(before, after):
    """Right iff the two of each row meet between write and read, and again before the next write."""
    assert right(met_by_rows(before, after), "random") == (before and after)


@triton.jit
def give(writer, x_desc, steps, COPIES: tl.constexpr):
    """Every chunk has a number, and every second one a tile by TMA."""
    for k in range(steps):
        slot = writer.acquire(k)
        copied = k % 2 == 0
        if COPIES and copied:
            tle.gpu.copy(x_desc, slot.x, [16, 32], [k * 16, 0])
        tl.store(tle.gpu.local_ptr(slot.flag), tl.full((32, ), 1, tl.int32) * copied.to(tl.int32))
        writer.commit(k)


@triton.jit
def take(reader, y_ptr, steps, RELEASE: tl.constexpr, COPIES: tl.constexpr):
    at = tl.arange(0, 16)[:, None] * 32 + tl.arange(0, 32)[None, :]
    for k in range(steps):
        slot = reader.wait(k).slot
        if tl.load(tle.gpu.local_ptr(slot.flag, (0, ))) > 0:
            if COPIES:
                tl.store(y_ptr + k * 512 + at, tl.load(tle.gpu.local_ptr(slot.x)))
        if RELEASE:
            reader.release(k)


@mimw.jit
def piping(x_desc, y_ptr, steps, RELEASE: tl.constexpr, COPIES: tl.constexpr):
    pipe = tle.pipe(capacity=2, name="x", x=tle.gpu.alloc([2, 16, 32], tl.float16), flag=tle.gpu.alloc([2, 32], tl.int32))
    tle.gpu.warp_specialize([(take, (pipe.reader(), y_ptr, steps, RELEASE, COPIES)),
                             (give, (pipe.writer(), x_desc, steps, COPIES))], [1], [24])


def piped(steps=5, release=True, copies=True):
    x, y = np.ones((80, 32), np.float16), np.zeros((80, 32), np.float16)
    return piping, 1, (mimw.TensorDescriptor.from_tensor(x, [16, 32]), y, steps, release, copies), {}


if "barrier_bytes" in OPS:
    states("barrier_bytes")(piped)


@needs_pipes
@pytest.mark.parametrize("steps", [2, 5])
@rows("release", "copies")
def test_pipes(steps, release, copies):
    """Right iff slots are released, whether or not a chunk brings a tile. Where nothing ever is, the compiler refuses the ring,
    also for a launch that would use each slot once."""
    assert right(piped(steps, release, copies)) == release
