"""The words for other GPUs, run: two ranks in one simulated machine, and on one real GPU as two launches on two streams.

A rank is a heap and a table, so two heaps of one device are two ranks to a kernel. That shows that signals, barriers of ranks and
addresses work as compiled; what NVLink adds only two devices show.
"""

import pytest

import mimw
import mimw.tle as tle
from mimw.ir.world import BASES, PROGRAMS
from tests.kernels.several_gpus import TWO, exchange, exchanged, exchanging, gathered, gathering, streaming

CLUSTERS = tle.device_mesh({"device": 2, "block_cluster": 2})


ROUNDS, N = 5, 128


@pytest.mark.parametrize("mesh, grid, programs", [(TWO, 3, 3), (CLUSTERS, 2, 4)], ids=["devices", "clusters"])
def test_two_simulated_ranks(mesh, grid, programs):
    for seed in (0, 3):
        kernel, _, args, _ = exchanging(ROUNDS, N, programs, mesh)
        mimw.simulate(kernel, (grid, ), *args, seed=seed, races=True)
        assert all((one == other).all() for one, other in zip(args[1], exchanged(ROUNDS, N, programs)))


def test_an_all_gather_whose_shards_are_used_as_they_arrive():
    kernel, grid, args, _ = gathering(4)
    assert mimw.check(kernel, grid, *args, seeds=2).ok
    mimw.simulate(kernel, grid, *args, seed=1)
    assert all((out == gathered(4)).all() for out in args[2])


def test_a_stream_with_answers():
    kernel, grid, args, _ = streaming(4)
    mimw.simulate(kernel, grid, *args, seed=1, races=True)
    assert list(args[3][1]) == [1, 2, 3, 4]


@pytest.mark.gpu
@pytest.mark.parametrize("mesh, grid, programs", [(TWO, 8, 8), (CLUSTERS, 4, 8)], ids=["devices", "clusters"])
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
        for rank, one in enumerate(exchanged(count, N, programs)):
            assert (y[rank].cpu().numpy() == one).all()
        assert not heaps[0][:pads].any() and not heaps[1][:pads].any()      # the pads are as they were
