"""The kernels that benchmarks/distributed_constants.py times move what they say, on the simulator; its rows, with
fake times. On GPUs the benchmark compares what it has moved."""

import json
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

import mimw
from benchmarks import distributed_constants, link_kernels
from benchmarks.link_kernels import WAYS, launch_of

SMALL = {"vectors": dict(N=32, num_warps=1), "TMA": dict(N=32, STAGES=3, UNREAD=1, num_warps=1)}


def buffers(world, elements):
    x, y = (world.symmetric(elements, "int32", name) for name in "xy")
    for rank in range(len(world)):
        x[rank][:] = np.arange(elements) + 1000 * rank
    return x, y


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("source, target", [(0, 1), (1, 0), (0, 0)])
@pytest.mark.parametrize("both", [True, False])
def test_what_is_moved(way, source, target, both):
    world = mimw.World(4 if both and source else 2)
    x, y = buffers(world, 32 * 5)
    grid, kernel, args, meta = launch_of(way, x, y, world, 2, 2, source, target, both, 32 * 5, **SMALL[way])
    mimw.simulate(kernel, grid, *args, seed=1, races=True, **meta)
    for rank in range(len(world)):
        reader = rank % 2 == 0 if not target else rank % 2 == 1          # who is written to by the rank that works alone
        expected = x[rank ^ (source | target)] if both or reader else 0
        assert (y[rank] == expected).all()


@pytest.mark.parametrize("way", WAYS)
def test_no_tiles_and_more_programs_than_tiles(way):
    world = mimw.World(2)
    x, y = buffers(world, 32)
    grid, kernel, args, meta = launch_of(way, x, y, world, 3, 1, 0, 1, True, 32, **SMALL[way])
    assert mimw.check(kernel, grid, *args, seeds=3, **meta).ok
    with pytest.raises(ValueError, match="no whole tiles of 32"):
        launch_of(way, x, y, world, 3, 3, 0, 1, True, 31, **SMALL[way])


def test_latencies():
    world = mimw.World(2)
    flag, links = world.symmetric(1, "int32", "flag"), world.symmetric(8, "int32", "links")
    out, cycles = (world.each(lambda rank: np.zeros(1, kind)) for kind in (np.int32, np.int64))
    for rank in range(2):
        links[rank][:] = (np.arange(8) + 1 + rank) % 8
    for kernel, args in ((link_kernels.round_trips, (flag, world, 3)), (link_kernels.meetings, (world, 3)),
                         (link_kernels.chain, (links, out, world, 3, 1)), (link_kernels.waited, (world, cycles))):
        assert mimw.check(kernel, 1, *args, seeds=3).ok
        mimw.simulate(kernel, 1, *args)
    assert (out[0][0], out[1][0]) == (6, 3) and flag[0][0] == flag[1][0] == 0
    assert cycles[0][0] > 0


class Launched:
    """A kernel that notes its launches."""

    def __init__(self, seen):
        self.seen = seen

    def __getitem__(self, grid):
        return lambda *args, **meta: self.seen.append((grid, args, meta))


@pytest.fixture
def bench(monkeypatch, tmp_path):
    """The benchmark at rank 0 of two, on a GPU that does nothing, where each measurement takes a microsecond longer."""
    torch = pytest.importorskip("torch")
    seen: list = []
    graph = SimpleNamespace(replay=lambda: None)
    cuda = SimpleNamespace(get_device_name=lambda: "a chip", synchronize=lambda: None, CUDAGraph=lambda: graph,
                           graph=lambda one: nullcontext(), current_stream=lambda: SimpleNamespace(cuda_stream=0),
                           Event=lambda enable_timing: SimpleNamespace(record=lambda: None, elapsed_time=lambda other: 0.5))

    def gathered(values, value, group):
        values[:] = [value] * len(values)

    fake = SimpleNamespace(cuda=cuda, int32=torch.int32, int64=torch.int64,
                           distributed=SimpleNamespace(barrier=lambda group: None, all_gather_object=gathered),
                           **{name: lambda *args, name=name, device, **more: getattr(torch, name)(*args, **more) for name in
                              ("zeros", "arange")})
    copies = SimpleNamespace(cuMemcpyDtoDAsync_v2=lambda *args: seen.append(("engine", args)) or 0)
    monkeypatch.setattr(distributed_constants, "torch", fake)
    monkeypatch.setattr(distributed_constants, "multiprocessors", lambda: 132)
    monkeypatch.setattr(distributed_constants, "ctypes", SimpleNamespace(
        CDLL=lambda name: copies, c_void_p=int, c_uint64=int, c_size_t=int))
    for name in ("by_vectors", "by_tma", "round_trips", "meetings", "chain", "waited"):
        monkeypatch.setattr(link_kernels, name, Launched(seen))
    world = SimpleNamespace(rank=0, size=2, group=None, table=torch.tensor([0, 2, 4096, 1000, 9000]),
                            symmetric=lambda shape, dtype, name="": torch.zeros(shape, dtype=dtype))
    made = distributed_constants.Bench(world, tmp_path / "rows.jsonl", 1 << 16)
    made.seen = seen
    return made


def test_rows(bench, monkeypatch):
    monkeypatch.setattr(distributed_constants, "PROGRAMS", (1, 64))
    monkeypatch.setattr(bench, "right", lambda *how: True)
    for name in distributed_constants.NAMES:
        getattr(bench, name)()
    rows = [json.loads(line) for line in bench.results.read_text().splitlines()]
    assert [row["name"] for row in rows if row["name"] not in ("bandwidth", "sizes", "engine")] == [
        "signal", "world_barrier", "world_barrier", "load", "load", "launch", "skew", "skew", "skew"]
    bandwidth = [row for row in rows if row["name"] == "bandwidth"]
    assert len(bandwidth) == 2 * 5 * 3 and {row["sms"] for row in bandwidth} == {1, 64, 132}
    engines = [one[1] for one in bench.seen if one[0] == "engine"]
    assert {one[0] - one[1] - (bench.y.data_ptr() - bench.x.data_ptr()) for one in engines} == {8000, -8000}


@pytest.mark.parametrize("source, target, both", [(0, 1, True), (1, 0, False), (0, 1, False), (0, 0, True)])
def test_a_wrong_copy_is_seen(bench, source, target, both):
    came = 1 if source | target else 0
    bench.y[:64] = bench.pattern(came, 64) if both or not target else 0
    assert bench.right(64, source, target, both) and not bench.y.any()
    bench.y[3] = 1
    assert not bench.right(64, source, target, both)
