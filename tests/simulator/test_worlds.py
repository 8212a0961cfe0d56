"""Several GPUs in one machine: whose memory is reached, who runs when, what a launch on them takes."""

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx
from mimw.errors import OutOfBounds, PeerUnreachable, SimulatorMisuse
from mimw.ir.trace import LINKS
from mimw.report import timeline_svg

RING = tle.device_mesh({"device": 4})
NODES = tle.device_mesh({"node": 2, "device": 2})
CLUSTERS = tle.device_mesh({"device": 2, "block_cluster": 2})
GRIDS = tle.device_mesh({"device": 2, "block": 4})


@mimw.jit
def rotate(x, y, flag, world, shift, N: tl.constexpr):
    """Each program of each rank puts its part of `y` into `x` of the next rank, and doubles what it has got."""
    at = tl.program_id(0) * N + tl.arange(0, N)
    peer = (tlx.world_rank(world) + shift) % tlx.world_size(world)
    tl.store(tlx.peer_pointer(x, peer, world) + at, tl.load(y + at))
    tlx.signal(tlx.peer_pointer(flag, peer, world) + tl.program_id(0))
    tlx.wait_signal(flag + tl.program_id(0), 1)
    tl.store(y + at, tl.load(x + at) * 2)


def rotated(world, n=3):
    x, flag = world.symmetric(16 * n, "float32", "x"), world.symmetric(n, "int32", "flag")
    y = world.each(lambda rank: np.full(16 * n, rank + 1, np.float32), "y")
    return (rotate, (n, ), x, y, flag, world, 1, 16), y


@pytest.mark.parametrize("gpus", [1, 2, 4])
@pytest.mark.parametrize("seed", [0, 5])
def test_each_rank_has_its_own_arrays(gpus, seed):
    launch, y = rotated(mimw.World(gpus))
    run = mimw.simulate(*launch, gpus=gpus, seed=seed, races=True, trace=True)
    assert [set(one) for one in y] == [{2.0 * ((rank - 1) % gpus + 1)} for rank in range(gpus)]
    assert run.counts["signal_wait"] == 3 * gpus
    ctas = {event.cta for event in run.trace.events} - {LINKS}
    assert len(ctas) == 3 * gpus and (gpus == 1 or set(run.trace.ranks.values()) == set(range(gpus)))


def test_links_are_lanes():
    """What goes to the next rank, on the lane of that link: a tile and a signal a program."""
    launch, _ = rotated(mimw.World(3))
    trace = mimw.simulate(*launch, trace=True).trace
    lanes = {name for cta, name in trace.lanes() if cta == LINKS}
    assert lanes == {"rank 0 to rank 1", "rank 1 to rank 2", "rank 2 to rank 0"}
    first = [event for event in trace.events if event.lane == "rank 0 to rank 1"]
    assert sorted(event.bytes for event in first) == [4, 4, 4, 64, 64, 64]
    assert all(one.end <= other.start for one, other in zip(first, first[1:]))
    picture = timeline_svg(trace, "three GPUs")
    assert "links / rank 0 to rank 1" in picture and "rank 2, cta" in picture


def test_a_world_without_a_number_has_what_the_command_says(monkeypatch):
    assert len(mimw.World()) == 1
    monkeypatch.setenv("MIMW_GPUS", "3")
    assert len(mimw.World()) == 3 and len(mimw.World(2)) == 2
    monkeypatch.setenv("MIMW_GPUS", "many")
    with pytest.raises(SimulatorMisuse, match="MIMW_GPUS is 'many'"):
        mimw.World()


def test_one_seed_is_one_run():
    def trace(seed):
        launch, _ = rotated(mimw.World(3))
        return [(event.cta, event.lane, event.kind, event.start, event.end) for event in
                mimw.simulate(*launch, seed=seed, trace=True).trace.events]

    assert trace(4) == trace(4)
    assert len({tuple(trace(seed)) for seed in range(6)}) > 1


@mimw.jit
def tiles_of_pointers(x, y, world, N: tl.constexpr):
    mesh = tle.bind_mesh(NODES, world)
    rows = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(x + rows, rows * 4 + tle.shard_id(mesh, "node") * 2 + tle.shard_id(mesh, 1))
    tle.distributed_barrier(mesh)
    other = tle.remote(x + rows, (1 - tle.shard_id(mesh, 0), tle.shard_id(mesh, "device")), scope=mesh)
    tl.store(y + rows, tl.load(other))
    tle.distributed_barrier(mesh[:, 0])
    tl.store(y, tl.load(tle.remote(x, 3, scope=mesh.flatten())))


def test_words_of_tle_over_device_axes():
    world = mimw.World(4)
    x, y = world.symmetric((8, 8), "int32", "x"), world.each(lambda rank: np.zeros((8, 8), np.int32), "y")
    mimw.simulate(tiles_of_pointers, (1, ), x, y, world, 8, races=True, seed=2)
    rows = np.arange(64).reshape(8, 8)
    for rank in range(4):
        expected = rows * 4 + (rank + 2) % 4
        expected[0, 0] = 3
        assert (y[rank] == expected).all()


@mimw.jit
def everyone(x, y, world, MESH: tl.constexpr, N: tl.constexpr):
    mesh = tle.bind_mesh(MESH, world)
    tl.store(x + tl.program_id(0), tle.shard_id(mesh, "device") * 10 + tl.program_id(0))
    tle.distributed_barrier(mesh)
    at = tl.arange(0, N)
    tl.store(y + tl.program_id(0) * N + at, tl.load(tle.remote(x, 1 - tle.shard_id(mesh, 0), scope=mesh[:, 0]) + at))


@pytest.mark.parametrize("mesh, grid, programs", [(CLUSTERS, 1, 2), (GRIDS, 4, 4)])
def test_a_mesh_of_devices_and_programs_meets_whole(mesh, grid, programs):
    world = mimw.World(2)
    x, y = world.symmetric(programs, "int32", "x"), world.each(lambda rank: np.zeros((programs, programs), np.int32), "y")
    assert mimw.check(everyone, grid, x, y, world, mesh, programs, seeds=3).ok
    mimw.simulate(everyone, grid, x, y, world, mesh, programs)
    assert (y[0] == 10 + np.arange(programs)).all() and (y[1] == np.arange(programs)).all()


@mimw.jit
def reach(x, addresses, world, RANK: tl.constexpr, BY: tl.constexpr):
    if tlx.world_rank(world) == 0:
        if BY == "word":
            tl.store(tlx.peer_pointer(x, RANK, world), 1)
        else:       # an address that somebody has sent
            tl.store(tl.load(addresses + RANK).to(tl.pointer_type(tl.int32)), 1)
    tlx.clock64()


def test_what_is_not_symmetric_is_out_of_reach():
    world = mimw.World(2)
    private = world.each(lambda rank: np.zeros(16, np.int32), "private")
    addresses = world.each(lambda rank: np.array([one.ctypes.data for one in private]), "addresses")
    with pytest.raises(PeerUnreachable, match="argument 'x' of rank 0 is not symmetric"):
        mimw.simulate(reach, 1, private, addresses, world, 1, "word")
    with pytest.raises(PeerUnreachable, match="in argument 'x' of rank 1: an array of another GPU"):
        mimw.simulate(reach, 1, private, addresses, world, 1, "hand")
    with pytest.raises(OutOfBounds, match="rank 2 of a world of 2 GPUs"):
        mimw.simulate(reach, 1, world.symmetric(4, "int32"), addresses, world, 2, "word")


@mimw.jit
def by_descriptor(block, flag, world, N: tl.constexpr):
    """`block` is a host descriptor of this rank's array; the peer's is made of its pointer."""
    tile = tlx.local_alloc((N, N), tl.float32, 1)
    tlx.local_store(tile[0], tl.zeros((N, N), tl.float32) + 1.0 + tlx.world_rank(world))
    tlx.fence("async_shared")
    tlx.async_descriptor_store(block, tile[0], [0, 0])
    tlx.async_descriptor_store_wait(0)
    tlx.world_barrier(world)


@mimw.jit
def read_peer(pointer, out, world, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, tl.load(tlx.peer_pointer(pointer, 1 - tlx.world_rank(world), world) + at))
    tlx.clock64()


def test_what_descriptors_and_torch_tensors_lead_to_is_symmetric_too():
    world = mimw.World(2)
    x, flag = world.symmetric((16, 16), "float32", "x"), world.symmetric(1, "int32")
    blocks = world.each(lambda rank: mimw.TensorDescriptor.from_tensor(x[rank], [16, 16]))
    mimw.simulate(by_descriptor, 1, blocks, flag, world, 16, races=True)
    assert (x[0] == 1).all() and (x[1] == 2).all()
    torch = pytest.importorskip("torch")
    tensors, out = world.each(lambda rank: torch.from_numpy(x[rank])), world.each(lambda rank: torch.zeros(16))
    mimw.simulate(read_peer, 1, tensors, out, world, 16)
    assert out[0].eq(2).all() and out[1].eq(1).all()


def test_misuse_is_told():
    world = mimw.World(2)
    launch, y = rotated(world)
    with pytest.raises(SimulatorMisuse, match="gpus=4, and the launch is for 2 ranks"):
        mimw.simulate(*launch, gpus=4)
    with pytest.raises(SimulatorMisuse, match="'y' is one array for 2 GPUs"):
        mimw.simulate(*launch[:3], y[0], *launch[4:])
    with pytest.raises(SimulatorMisuse, match="for 2 and for 3 ranks"):
        mimw.simulate(*launch[:3], mimw.World(3).each(lambda rank: np.zeros(48, np.float32)), *launch[4:])
    with pytest.raises(SimulatorMisuse, match="ranks 0 and 1 would run different programs"):
        mimw.simulate(*launch[:6], world.each([1, 2]), 16)
    with pytest.raises(SimulatorMisuse, match="gpus=2, and the launch is for one GPU"):
        mimw.simulate(rotate, (1, ), np.zeros(4, np.float32), 1, 2, 3, 1, 4, gpus=2)
    with pytest.raises(SimulatorMisuse, match="no room for"):
        mimw.World(2, heap=1 << 16).symmetric(1 << 20, "float32")
    with pytest.raises(SimulatorMisuse, match="3 values for a world of 2"):
        world.each([1, 2, 3])
    for shape, dtype, why in ((-4, "float32", "the shape"), ((4, "x"), "float32", "the shape"), (4, tl.float16, "the type")):
        with pytest.raises(SimulatorMisuse, match=why):
            world.symmetric(shape, dtype)


def test_a_number_may_differ_by_rank():
    world = mimw.World(2)
    x, flag = world.symmetric(48, "float32", "x"), world.symmetric(3, "int32", "flag")
    y = world.each(lambda rank: np.full(48, rank + 1, np.float32))
    mimw.simulate(rotate, (3, ), x, y, flag, world, world.each([3, 5]), 16)
    assert (y[0] == 4).all() and (y[1] == 2).all()


def test_a_check_leaves_all_ranks_arrays_as_they_were():
    launch, y = rotated(mimw.World(2))
    report = mimw.check(*launch, seeds=3)
    assert report.ok and report.untried.startswith("no loop waits") and [one[0] for one in y] == [1, 2]
    systematic = mimw.check(*rotated(mimw.World(2), 1)[0], search="systematic", limit=40)
    assert systematic.ok and systematic.complete
