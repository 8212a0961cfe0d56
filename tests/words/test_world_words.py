"""The words for other GPUs, run: two ranks in one simulated machine, and on one real GPU as two launches on two streams.

A rank is a heap and a table, so two heaps of one device are two ranks to a kernel. That shows that signals, barriers of ranks and
addresses work as compiled; what NVLink adds only two devices show.
"""

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx
from mimw.world import BASES, PROGRAMS

MESH = tle.device_mesh({"device": 2})
CLUSTERS = tle.device_mesh({"device": 2, "block_cluster": 2})


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
        tlx.wait_signal(flag + program, 2 * r + 2, compare="eq")
        tl.store(y + at, tl.load(z + at))
        tle.distributed_barrier(mesh)


ROUNDS, N = 5, 128


def expected(programs, rounds):
    """What goes to the peer by stores comes back by bulk copies: every round adds its number."""
    return [np.full(programs * N, rank + 1 + rounds * (rounds - 1) // 2, np.float32) for rank in range(2)]


@pytest.mark.parametrize("mesh, grid, programs", [(MESH, 3, 3), (CLUSTERS, 2, 4)], ids=["devices", "clusters"])
def test_two_simulated_ranks(mesh, grid, programs):
    world = mimw.World(2)
    x, z = world.symmetric(programs * N, "float32", "x"), world.symmetric(programs * N, "float32", "z")
    flag = world.symmetric(programs, "int32", "flag")
    y = world.each(lambda rank: np.full(programs * N, rank + 1, np.float32), "y")
    for seed in (0, 3):
        for rank in range(2):
            flag[rank][:], y[rank][:] = 0, rank + 1
        mimw.simulate(exchange, (grid, ), x, y, z, flag, world, ROUNDS, N, mesh, seed=seed, races=True)
        assert all((one == other).all() for one, other in zip(y, expected(programs, ROUNDS)))


@pytest.mark.gpu
@pytest.mark.parametrize("mesh, grid, programs", [(MESH, 8, 8), (CLUSTERS, 4, 8)], ids=["devices", "clusters"])
def test_two_ranks_on_one_gpu(mesh, grid, programs):
    torch = pytest.importorskip("torch")
    rounds, size = 300, programs * N
    pads = PROGRAMS * 2
    heaps = [torch.zeros(pads + 2 * size + programs, dtype=torch.int32, device="cuda") for _ in range(2)]
    bases = [heap.data_ptr() for heap in heaps]
    assert all(base % 256 == 0 for base in bases)
    worlds = [torch.tensor([rank, 2, PROGRAMS, *bases], dtype=torch.int64, device="cuda") for rank in range(2)]
    assert len(worlds[0]) == BASES + 2
    y = [torch.full((size, ), rank + 1.0, device="cuda") for rank in range(2)]
    streams = [torch.cuda.Stream() for _ in range(2)]

    def launch(rank, count):
        heap = heaps[rank]
        x, z = heap[pads:pads + size].view(torch.float32), heap[pads + size:pads + 2 * size].view(torch.float32)
        with torch.cuda.stream(streams[rank]):
            exchange[(grid, )](x, y[rank], z, heap[pads + 2 * size:], worlds[rank], count, N, mesh)

    for count in (1, rounds):       # the first launch loads the binary, before the other rank's is waited for
        for rank in range(2):
            heaps[rank][pads + 2 * size:].zero_()
            y[rank].fill_(rank + 1.0)
        torch.cuda.synchronize()
        for rank in range(2):
            launch(rank, count)
        torch.cuda.synchronize()
        for rank, one in enumerate(expected(programs, count)):
            assert (y[rank].cpu().numpy() == one).all()
        assert not heaps[0][:pads].any() and not heaps[1][:pads].any()      # the pads are as they were
