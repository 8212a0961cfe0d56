"""Parts of meshes of GPUs, clusters and blocks: who meets, and whose memory coordinates lead to."""

import numpy as np
import pytest
import triton.language as tl

import mimw
from mimw import tle
from mimw.errors import Deadlock, RemoteTwice
from tests.tle.compiling import refused

CLUSTERS = tle.device_mesh({"device": 2, "block_cluster": [("cluster_x", 2), ("cluster_y", 2)]})
BLOCKS = tle.device_mesh({"device": 2, "block": 4})
BOTH = tle.device_mesh({"device": 2, "cluster": 2, "block": 2})


@mimw.jit
def parts(x, y, world, mesh: tl.constexpr, KEY: tl.constexpr, MATE: tl.constexpr, ABSENT: tl.constexpr):
    """All call the barrier of a part of the mesh. Who is in the part reads what CTA `me ^ MATE` of each GPU has written."""
    bound = tle.bind_mesh(mesh, world)
    part = bound[KEY]
    one = bound.flatten()[0:mesh.size:mesh.size // 2]
    me, gpu = tl.program_id(0), tle.shard_id(bound, "device")
    tl.store(x + me, 1 + me + 10 * gpu)
    if gpu != ABSENT:
        tle.distributed_barrier(part)
    member = (me // 2 == 1) if MATE else me == 3
    if member:
        total = 0
        for other in tl.static_range(one.size):
            total += tl.load(tle.remote(x, other, scope=one) + (me ^ MATE))
        tl.store(y + me, total)
    tle.distributed_barrier(part)


ALL = slice(None)
ROW, CLUSTER = (ALL, 1), (ALL, ALL, 1)
SIGNATURE = {"x": "*i32", "y": "*i32", "world": "*i64"}


@pytest.mark.parametrize("mesh, key, mate", [
    pytest.param(BLOCKS, (ALL, 3), 0, id="one block"), pytest.param(CLUSTERS, (ALL, 1, 1), 0, id="one CTA"),
    pytest.param(CLUSTERS, ROW, 1, id="a row of the cluster"), pytest.param(BOTH, CLUSTER, 1, id="one of two clusters")])
def test_a_part_of_each_gpu_meets(mesh, key, mate):
    """For the others nothing happens; a GPU that stays away is waited for by its like."""
    world, grid = mimw.World(2), (4 // mesh.launch_size if not mesh.is_block_mesh else 4, )
    x, y = world.symmetric(4, "int32", "x"), world.each(lambda rank: np.zeros(4, np.int32), "y")
    launch = parts, grid, x, y, world, mesh, key, mate
    assert mimw.check(*launch, 9, seeds=2).ok
    mimw.simulate(*launch, 9)
    for rank in range(2):
        assert list(y[rank]) == ([0, 0, 18, 16] if mate else [0, 0, 0, 18])
    with pytest.raises(Deadlock, match="rank 1"):
        mimw.simulate(*launch, 1)


def test_parts_that_do_not_meet():
    for mesh, key, why in ((BLOCKS, (ALL, slice(0, 2)), "a part of the grid"), (BOTH, ALL, "programs of 2 clusters")):
        refused(NotImplementedError, why, parts, SIGNATURE, mesh=mesh, KEY=key, MATE=0, ABSENT=9)


@mimw.jit
def coordinates(x, y, world, mesh: tl.constexpr, CASE: tl.constexpr):
    bound = tle.bind_mesh(mesh, world) if CASE != "another cluster's buffer" else mesh
    buffer = tle.gpu.alloc([8], tl.int32)
    if CASE == "another GPU's buffer":
        tle.remote(buffer, (tl.program_id(0) * 0, 1), scope=bound)
    elif CASE == "another cluster's buffer":
        tle.remote(buffer, (1, tl.program_id(0) // 2), scope=mesh)
    elif CASE == "not bound":
        tle.remote(x, 1, scope=mesh)
    elif CASE == "a tile":
        tle.remote(tl.load(x + tl.arange(0, 8)), 1, scope=bound)
    else:
        far = tle.remote(x, 1, scope=bound[:, 0]) + tl.program_id(0)
        tl.store(y, tl.load(tle.remote(far, 0, scope=bound[:, 0])))


def test_coordinates_that_lead_out_of_reach():
    """Shared memory is reached within the cluster, global memory from this GPU's own pointer."""
    def wrong(kind, why, case, mesh):
        refused(kind, why, coordinates, SIGNATURE, mesh=mesh, CASE=case)

    gpus = tle.device_mesh({"device": 2, "cluster": 2})
    wrong(ValueError, "of only 2 CTAs is within reach, those of this cluster; give the part of the mesh that is one cluster, such "
                      "as mesh[0, :]", "another GPU's buffer", gpus)
    wrong(ValueError, "such as mesh[:, 0]", "another cluster's buffer", tle.device_mesh({"cluster": 2, "block": 2}))
    wrong(TypeError, "tle.bind_mesh has bound", "not bound", gpus)
    wrong(TypeError, "got int32[8], which is in the registers", "a tile", tle.device_mesh({"device": 2}))
    wrong(RemoteTwice, "is a peer's already", "twice", gpus)


@mimw.jit
def gathers(x, y, world, mesh: tl.constexpr, KEYS: tl.constexpr, N: tl.constexpr):
    """Every program calls for every part, and keeps what it gets of its own."""
    bound = tle.bind_mesh(mesh, world)
    me, at = tl.program_id(0), tl.arange(0, 2 * N)
    mine = me if mesh.ndim == 3 else tle.shard_id(bound, "node")
    for number in tl.static_range(len(KEYS)):
        part = bound[KEYS[number]]
        tile = tle.make_sharded_tensor(tl.load(x + me * N + tl.arange(0, N)), tle.sharding(part, ["device"]), [2 * N])
        whole = tle.reshard(tile, tle.sharding(part, [None])).handle
        if mine == number:
            tl.store(y + me * 2 * N + at, whole)


@pytest.mark.parametrize("mesh, programs, keys", [
    pytest.param(tle.device_mesh({"node": 2, "device": 2}), 1, (0, 1), id="nodes"),
    pytest.param(CLUSTERS, 4, ((ALL, 0, 0), (ALL, 0, 1), (ALL, 1, 0), (ALL, 1, 1)), id="CTAs")])
def test_each_part_gathers_for_itself(mesh, programs, keys):
    """The others call as well; they meet nobody, and read nothing that somebody may write."""
    ranks = mesh.size // programs
    world = mimw.World(ranks)
    x = world.each(lambda rank: np.arange(programs * 8, dtype=np.int32).reshape(programs, 8) + 100 * rank, "x")
    y = world.each(lambda rank: np.zeros((programs, 16), np.int32), "y")
    mimw.simulate(gathers, (1, ), x, y, world, mesh, keys, 8, races=True)
    for rank in range(ranks):
        pair = (0, 1) if ranks == 2 else (rank // 2 * 2, rank // 2 * 2 + 1)
        assert (y[rank] == np.concatenate([x[one] for one in pair], 1)).all()
