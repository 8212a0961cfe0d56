"""The host side and the words on several real GPUs.

    python -m torch.distributed.run --standalone --nproc-per-node 2 -m tests.several_gpus.words [names]

Input: one process for each GPU, two or more; an even number, else the last one has no pair. Output: as running.py says.
"""

import sys
import threading
import time

import numpy as np
import torch
import torch.distributed as dist
import triton
import triton.language as tl

import mimw
import mimw.distributed
import mimw.tle as tle
import mimw.tlx as tlx
from mimw.distributed import bind, world_of
from mimw.errors import HeapFull, NotSymmetric, RanksDisagree, SimulatorMisuse
from mimw.ops.distributed import all_reduce
from mimw.ops.distributed.launching import RankLaunch, simulated, tensors_of, workspace
from tests.kernels.several_gpus import TWO, exchange, exchanged, gather, gathered, stream

from .running import anew as new_world
from .running import main, pair

CLUSTERS = tle.device_mesh({"device": 2, "block_cluster": 2})


@mimw.jit
def put(x, y, flag, world, N: tl.constexpr):
    """x into the y of the next rank; the flag resets itself, so that launches may follow each other."""
    at = tl.program_id(0) * N + tl.arange(0, N)
    peer = (tlx.world_rank(world) + 1) % tlx.world_size(world)
    tl.store(tlx.peer_pointer(y, peer, world) + at, tl.load(x + at))
    tlx.signal(tlx.peer_pointer(flag, peer, world) + tl.program_id(0))
    tlx.wait_signal(flag + tl.program_id(0), 1)
    tl.store(flag + tl.program_id(0), 0)
    tlx.world_barrier(world)


@mimw.jit
def get(x, y, world, N: tl.constexpr):
    """x of the next rank into y."""
    at = tl.program_id(0) * N + tl.arange(0, N)
    tlx.world_barrier(world)
    peer = (tlx.world_rank(world) + 1) % tlx.world_size(world)
    tl.store(y + at, tl.load(tlx.peer_pointer(x, peer, world) + at))
    tlx.world_barrier(world)


def _beside(world):
    """The ranks before and after this one, in a ring."""
    return (world.rank - 1) % world.size, (world.rank + 1) % world.size


def starting(world):
    """A world of all GPUs, one heap each."""
    assert (world.rank, world.size, world.device.type) == (dist.get_rank(), dist.get_world_size(), "cuda")
    assert world is mimw.distributed.init() is world_of() is world_of(world.name) is bind(TWO)
    table, bases = world.table.tolist(), world.table.tolist()[3:3 + world.size]
    assert table[:3] == [world.rank, world.size, 4096] and all(base % 256 == 0 for base in bases) and world.table.is_cuda
    assert len(set(bases)) == world.size
    return f"table {[hex(one) for one in table]}"


def host(world):
    """A peer's tensor, written and read from the host."""
    x = world.symmetric((4, 33), torch.float32, "x")
    assert not x.any()
    world.barrier()         # before peers write there
    before, after = _beside(world)
    world.peer(x, after).copy_(torch.full((4, 33), world.rank + 1.0, device=world.device))
    torch.cuda.synchronize()
    world.barrier()
    assert (x == before + 1).all() and (world.peer(x, after)[1:, 2:] == world.rank + 1).all()
    world.barrier()


def puts(world):
    """Launches that follow each other; frozen ones; a graph that is replayed."""
    x = torch.arange(256, dtype=torch.int32, device=world.device) + 1000 * world.rank
    y, flag = world.symmetric(256, torch.int32, "y"), world.symmetric(2, torch.int32, "flag")
    expected = torch.arange(256, dtype=torch.int32, device=world.device) + 1000 * _beside(world)[0]

    def right():
        torch.cuda.synchronize()
        found = bool((y == expected).all()) and not flag.any()
        y.zero_()
        torch.cuda.synchronize()
        world.barrier()
        return found

    for _ in range(50):
        put[(2, )](x, y, flag, world, 128)
    assert right(), "launches"
    frozen = put.freeze((2, ), x, y, flag, world, 128)
    for _ in range(50):
        frozen(x, y, flag, world)
    assert right(), "frozen launches"
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(5):
            put[(2, )](x, y, flag, world, 128)
    for _ in range(20):
        graph.replay()
    assert right(), "replays of a graph"
    launch = RankLaunch(world, x, put, (2, ), (x, y, flag, world, 128), {}, kept=(y, flag))
    for _ in range(20):
        launch(x)
    assert right(), "an operator's launches"
    start = time.perf_counter()
    for _ in range(10_000):
        world.launched("put")
    return f"a launch is noted in {(time.perf_counter() - start) * 100:.2f} us"


def gets(world):
    """What a peer has written before it launched is there."""
    x, y = world.symmetric(256, torch.float32, "x"), torch.empty(256, device=world.device)
    for step in range(50):
        x.fill_(world.rank + 10 * step)
        get[(2, )](x, y, world, 128)
        assert (y == _beside(world)[1] + 10 * step).all(), step


def _exchange(world, mesh, grid, programs, rounds=200, size=128):
    x, z = (world.symmetric(programs * size, torch.float32, name) for name in "xz")
    flag = world.symmetric(programs, torch.int32, "flag")
    y = torch.full((programs * size, ), world.rank + 1.0, device=world.device)
    exchange[(grid, )](x, y, z, flag, bind(mesh, world.group), rounds, size, mesh)
    assert (y.cpu().numpy() == exchanged(rounds, size, programs)[world.rank]).all()


def exchanges(world):
    """Stores, signals, bulk copies and barriers in rounds, two ranks each: programs of their own, and clusters."""
    two = pair(world)
    if two is not None:
        _exchange(two, TWO, 8, 8)
        _exchange(two, CLUSTERS, 4, 8)


def gathers(world):
    """Tasks: TMA to peers, shards used as they arrive."""
    n, size = 16, world.size
    triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device=world.device))
    x = torch.full((n, n), world.rank + 1.0, device=world.device)
    whole, flags = world.symmetric((size, n, n), torch.float32, "whole"), world.symmetric(size, torch.int32, "flags")
    out = torch.zeros((size, n, n), device=world.device)
    gather[(1, )](x, whole, out, flags, world, n)
    assert (out.cpu().numpy() == gathered(size)).all()


def streams(world):
    """Words that go to and fro, between two ranks each."""
    world = pair(world)
    if world is None:
        return
    x, flag, back = (world.symmetric(1, torch.int32, name) for name in ("x", "flag", "back"))
    y = torch.zeros(400, dtype=torch.int32, device=world.device)
    stream[(1, )](x, flag, back, y, world, 400)
    assert world.rank == 0 or y.tolist() == list(range(1, 401))


def errors(world):
    """Named at both ranks, and the world goes on."""
    for wrong, kind in ((lambda: world.symmetric(8 + world.rank, torch.float32), RanksDisagree),
                        (lambda: world.symmetric(1 << 40, torch.uint8), HeapFull),
                        (lambda: world.check_symmetric(torch.zeros(4, device=world.device)), NotSymmetric)):
        try:
            wrong()
        except kind:
            continue
        raise AssertionError(f"no {kind.__name__}")
    one = world.symmetric(64, torch.float32)
    one.fill_(3)
    at = world.offset_of(one)
    world.free(one)
    assert world.offset_of(again := world.symmetric(64, torch.float32)) == at and not again.any()


def groups(world):
    """Two groups of the same GPUs: heaps of their own, launches of both side by side."""
    other, (before, _) = new_world(), _beside(world)
    assert other is not world and not set(other.table.tolist()[3:3 + world.size]) & set(world.table.tolist()[3:3 + world.size])
    results = []
    for one in (world, other):
        x = torch.full((256, ), world.rank + len(results) * 10, dtype=torch.int32, device=world.device)
        y, flag = one.symmetric(256, torch.int32, "y"), one.symmetric(2, torch.int32, "flag")
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(100):
                put[(2, )](x, y, flag, one, 128)
        results.append(y)
    torch.cuda.synchronize()
    assert [int(y[0]) for y in results] == [before, 10 + before] and all((y == y[0]).all() for y in results)
    world.barrier()


def processors(world):
    """Tensors of the CPU beside a GPU's: gloo and the simulator. Its mimw.World is not the real one."""
    def run(ranks, xs):
        y, flag = ranks.symmetric(32, "float32", "y"), ranks.symmetric(2, "int32", "flag")
        mimw.simulate(put, (2, ), ranks.each(xs, "x"), y, flag, ranks, 16)
        return tensors_of(y)

    assert (simulated("put", world, (torch.full((32, ), world.rank + 1.0), ), run) == _beside(world)[0] + 1).all()
    assert workspace(world, "parts", 8, torch.int32) is workspace(world, "parts", (8, ), torch.int32)
    try:
        mimw.simulate(put, (2, ), np.zeros(32, np.float32), np.zeros(32, np.float32), np.zeros(2, np.int32), world, 16)
    except SimulatorMisuse:
        return
    raise AssertionError("a world of GPUs was simulated")


def anew(world):
    """Groups that are made, used and destroyed: their heaps and threads do not pile up, and each sum is right."""
    world.barrier()
    free, heap, size = torch.cuda.mem_get_info()[0], world.heap, world.size
    for number in range(12):
        group = dist.new_group(list(range(size)))
        total = all_reduce(torch.full((1 << 12, ), world.rank + number, dtype=torch.float32, device=world.device), group)
        assert (total == size * number + size * (size - 1) // 2).all(), number
        torch.cuda.synchronize()
        world.barrier()
        dist.destroy_process_group(group)
    watching = [one for one in threading.enumerate() if one.name == "mimw world watch"]
    lost = free - torch.cuda.mem_get_info()[0]
    assert lost < 6 * heap * (size if world.shares_gpus else 1), f"{lost >> 20} MiB are not given back"
    return f"{lost >> 20} MiB, {len(watching)} threads"


CHECKS = (starting, host, puts, gets, exchanges, gathers, streams, errors, groups, anew, processors)


if __name__ == "__main__":
    sys.exit(main(CHECKS))
