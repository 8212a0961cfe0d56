"""Barriers among the CTAs of a mesh: who waits for whom, what they order, and what happens when somebody stays away."""

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx
from mimw.errors import Deadlock
from mimw.runtime.compile_kernel import compile_kernel
from tests.tle.compiling import refused

SQUARE = tle.device_mesh({"block_cluster": [("row", 2), ("column", 2)]})
FOUR = tle.device_mesh({"cluster": 4})
BLOCKS = tle.device_mesh({"block": 8})


@mimw.jit
def ring(out, scratch, mesh: tl.constexpr, SIZE: tl.constexpr, ROUNDS: tl.constexpr):
    """Every program adds what its neighbour wrote in the round before."""
    me = tl.program_id(0)
    base = me // SIZE * SIZE
    at = tl.arange(0, 32)
    total = tl.zeros([32], tl.int32)
    for step in range(ROUNDS):
        tl.store(scratch + (step % 2 * tl.num_programs(0) + me) * 32 + at, at + me + step)
        tle.distributed_barrier(mesh)
        neighbour = base + (me + 1) % SIZE
        total += tl.load(scratch + (step % 2 * tl.num_programs(0) + neighbour) * 32 + at, cache_modifier=".cg")
    tl.store(out + me * 32 + at, total)


def rings(groups, size, rounds):
    me = np.arange(groups * size)
    neighbour = me // size * size + (me + 1) % size
    return sum(np.arange(32) + neighbour[:, None] + step for step in range(rounds)).astype(np.int32)


@pytest.mark.parametrize("mesh", [FOUR, SQUARE, SQUARE.flatten(), SQUARE[:, :]], ids=["line", "square", "flat", "slice"])
def test_a_cluster_meets(machine, mesh):
    out, scratch = np.zeros((8, 32), np.int32), np.zeros((2, 8, 32), np.int32)
    machine.launch(ring, (2, ), out, scratch, mesh, 4, 5)
    assert (out == rings(2, 4, 5)).all()


def test_a_grid_meets_again_and_again_and_launch_after_launch(machine):
    for groups in (8, 3, 8, 1):
        out, scratch = np.zeros((groups, 32), np.int32), np.full((2, groups, 32), -7, np.int32)
        machine.launch(ring, (groups, ), out, scratch, BLOCKS, groups, 6)
        assert (out == rings(1, groups, 6)).all()


def test_without_a_cluster_it_is_a_cta_barrier(machine):
    out, scratch = np.zeros((3, 32), np.int32), np.zeros((2, 3, 32), np.int32)
    machine.launch(ring, (3, ), out, scratch, None, 1, 3)
    assert (out == rings(3, 1, 3)).all()


@mimw.jit
def rows(out, scratch, mesh: tl.constexpr, FIRST: tl.constexpr, SECOND: tl.constexpr, BRANCH: tl.constexpr):
    """The rows of a square go their own ways for FIRST and SECOND rounds; then all meet."""
    row, column = tle.shard_id(mesh, "row"), tle.shard_id(mesh, "column")
    here = scratch + tl.program_id(0) // 4 * 4 + 2 * row
    total = 0
    if BRANCH:
        if row == 0:
            for step in range(FIRST):
                tl.store(here + column, step + 1)
                tle.distributed_barrier(mesh[0, :])
                total += tl.load(here + 1 - column, cache_modifier=".cg")
                tle.distributed_barrier(mesh[0, :])
        else:
            for step in range(SECOND):
                tl.store(here + column, 100 * (step + 1))
                tle.distributed_barrier(mesh[1, :])
                total += tl.load(here + 1 - column, cache_modifier=".cg")
                tle.distributed_barrier(mesh[1, :])
    else:
        tl.store(here + column, 10 + column)
        tle.distributed_barrier(mesh[0, :])
        tle.distributed_barrier(mesh[1, :])
        total += tl.load(here + 1 - column, cache_modifier=".cg")
    tle.distributed_barrier(mesh)
    tl.store(scratch + tl.program_id(0), total)
    tle.distributed_barrier(mesh[:, 0])
    tle.distributed_barrier(mesh[:, 1])
    other = tl.load(scratch + tl.program_id(0) // 4 * 4 + 2 * (1 - row) + column, cache_modifier=".cg")
    tl.store(out + 2 * tl.program_id(0), total)
    tl.store(out + 2 * tl.program_id(0) + 1, other)


@pytest.mark.parametrize("first, second, branch", [(3, 0, True), (0, 2, True), (2, 3, True), (0, 0, False)])
def test_rows_are_independent(machine, first, second, branch):
    out, scratch = np.full((8, 2), -1, np.int32), np.zeros(8, np.int32)
    machine.launch(rows, (2, ), out, scratch, SQUARE, first, second, branch)
    totals = [sum(range(1, first + 1)), 100 * sum(range(1, second + 1))]
    expected = np.array([[totals[0], totals[0]], [totals[1], totals[1]]]) if branch else np.array([[11, 10], [11, 10]])
    both = np.stack([expected, expected[::-1]], -1).reshape(4, 2)
    assert (out == np.concatenate([both, both])).all()


def test_races_are_understood(check_kernel):
    """The same program is clean under every order that is tried, and without the first barrier of a row it is not."""
    out, scratch = np.zeros((4, 2), np.int32), np.zeros(4, np.int32)
    check_kernel(rows, (1, ), out, scratch, SQUARE, 2, 1, True)
    report = mimw.check(unmet, (1, ), np.zeros(4, np.int32), np.zeros(4, np.int32), SQUARE)
    assert not report.ok and "DataRace" in report.findings[0].kinds


@mimw.jit
def unmet(out, scratch, mesh: tl.constexpr):
    """The barrier is that of the rows, and the neighbour in the column is read."""
    me = tl.program_id(0)
    tl.store(scratch + me, me)
    tle.distributed_barrier(mesh[0, :])
    tle.distributed_barrier(mesh[1, :])
    tl.store(out + me, tl.load(scratch + (me + 2) % 4, cache_modifier=".cg"))


@mimw.jit
def absent(out, mesh: tl.constexpr, part: tl.constexpr):
    if tle.shard_id(mesh, 0) == 0:
        tle.distributed_barrier(part)
    tl.store(out, 1)


@pytest.mark.parametrize("mesh, part, who", [(FOUR, FOUR[0:2], "ranks 0, 1"), (BLOCKS, BLOCKS, "the grid")])
def test_who_stays_away_is_named(mesh, part, who):
    with pytest.raises(Deadlock, match=who):
        mimw.simulate(absent, (8 if mesh is BLOCKS else 1, ), np.zeros(1, np.int32), mesh, part)


def test_a_part_of_one_cta_is_its_own_barrier(machine):
    out = np.zeros(1, np.int32)
    machine.launch(absent, (1, ), out, FOUR, FOUR[0:1])
    assert out[0] == 1


@mimw.jit
def early(out, scratch, mesh: tl.constexpr, LEAVE: tl.constexpr):
    """Cluster LEAVE returns before its first barrier."""
    me = tl.program_id(0)
    if me // 4 == LEAVE:
        return
    tl.store(scratch + me, me + 1)
    tle.distributed_barrier(mesh[0:2])
    tle.distributed_barrier(mesh[2:4])
    tl.store(out + me, tl.load(scratch + (me ^ 1), cache_modifier=".cg"))


def test_whole_clusters_may_leave_early(machine):
    out, scratch = np.zeros(12, np.int32), np.zeros(12, np.int32)
    machine.launch(early, (3, ), out, scratch, FOUR, 1)
    me = np.arange(12)
    assert (out == np.where(me // 4 == 1, 0, (me ^ 1) + 1)).all()


@mimw.jit
def in_a_task(out, mesh: tl.constexpr):
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tl.store(out, 1)
        with tlx.async_task(num_warps=4):
            tle.distributed_barrier(mesh)


@mimw.jit
def both_kinds(out, blocks: tl.constexpr, cluster: tl.constexpr, FIRST: tl.constexpr):
    if FIRST:
        tle.distributed_barrier(blocks)
    tl.store(out, tle.shard_id(cluster, 0))
    if not FIRST:
        tle.distributed_barrier(blocks)


def test_refusals():
    signature = {"out": "*i32"}
    refused(TypeError, "mesh", absent, signature, mesh=FOUR, part=3)
    refused(ValueError, "all meshes of a kernel agree", absent, signature, mesh=FOUR, part=tle.device_mesh({"cluster": 8}))
    refused(ValueError, "elements", absent, signature, mesh=FOUR, part=tle.device_mesh({"cluster": 4, "block": 2}))
    gpus = tle.device_mesh({"device": 2, "cluster": 4})
    refused(ValueError, "tle.bind_mesh(mesh, world)", absent, signature, mesh=FOUR, part=gpus)
    refused(NotImplementedError, "parts of grids", absent, signature, mesh=BLOCKS, part=BLOCKS[0:4])
    for first in (True, False):
        refused(ValueError, "one of the two ways", both_kinds, signature, blocks=BLOCKS, cluster=FOUR, FIRST=first)
    refused(ValueError, "num_ctas=1", ring, {"out": "*i32", "scratch": "*i32"}, {"num_ctas": 2}, mesh=None, SIZE=1, ROUNDS=1)
    with pytest.raises(Exception, match="this distributed_barrier never opens"):
        compile_kernel(in_a_task, signature, {"mesh": FOUR})


def test_instructions():
    """The members are in the code, the barrier is made at the start, and a grid's barrier makes the launch cooperative."""
    signature = {"out": "*i32", "scratch": "*i32"}
    part = compile_kernel(early, signature, {"mesh": FOUR, "LEAVE": 0}).stages["ptx"]
    assert part.count("mbarrier.arrive.release.cluster.shared::cluster") == 2
    assert part.count("mbarrier.try_wait.parity.acquire.cluster") == 2
    assert part.count("barrier.cluster.arrive") == 2, "at the start and at the end"
    grid = compile_kernel(ring, signature, {"mesh": BLOCKS, "SIZE": 8, "ROUNDS": 2})
    assert grid.metadata.launch_cooperative_grid is True and grid.metadata.cluster_dims == (1, 1, 1)
    assert "ld.acquire.gpu" in grid.stages["ptx"] and "%envreg2" in grid.stages["ptx"]
    whole = compile_kernel(ring, signature, {"mesh": FOUR, "SIZE": 4, "ROUNDS": 2})
    assert whole.metadata.launch_cooperative_grid is False and "barrier.cluster.arrive.release.aligned" in whole.stages["ptx"]
