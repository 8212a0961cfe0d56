"""Tensors that are spread over several real GPUs: each way to spread them in another way, products, shards of others.

    python -m torch.distributed.run --standalone --nproc-per-node 2 -m tests.several_gpus.sharded [names]

Input: one process for each GPU, 2, 4 or 8 of them. Output: as running.py says.
"""

import sys

import numpy as np
import torch

import mimw
import mimw.tle as tle
from tests.kernels.remote_tile import fetch
from tests.kernels.resharding import change, constants, grid_of, shards, shards_of_others
from tests.kernels.sharded_product import CASES, launch, multiply
from tests.tle.test_reshard_gpus import rows

from .running import main, pair, times


def _mesh(world, **axes):
    """All GPUs, and axes of their clusters or grids."""
    return tle.device_mesh({"device": world.size, **axes})


def _along(mesh):
    """Ways to spread along the axis of GPUs."""
    def spec(*of):
        return tle.sharding(mesh, *of)

    return {
        "all-to-all": (spec(["device"]), spec([None, "device"])),
        "all-reduce": (spec([], ["device"]), spec()),
        "reduce-scatter": (spec([], ["device"]), spec(["device"])),
    }


def _changed(world, have, want, dtype, launches=1):
    rounds = times(world, 50)
    x, expected = (torch.from_numpy(np.ascontiguousarray(one[world.rank])).to(world.device)
                   for one in shards(have, want, dtype, rounds))
    y = torch.zeros_like(expected)
    for _ in range(launches):
        y.zero_()
        change[grid_of(have.mesh)](x, y, world, *constants(have, want, rounds))
    torch.cuda.synchronize()
    assert torch.equal(y, expected), f"{have} -> {want} of {np.dtype(dtype).name}: {int((y != expected).sum())} elements"


def devices(world):
    """Along an axis of GPUs, many times in a launch, three launches without a barrier between."""
    for have, want in _along(_mesh(world)).values():
        for dtype in (np.float32, np.float16, np.int8):
            _changed(world, have, want, dtype, 3)


def nodes(world):
    """Every row of the table on nodes of two GPUs."""
    if world.size > 2:
        _table(world, tle.device_mesh({"node": world.size // 2, "device": 2}))


def _table(world, mesh):
    for have, want in rows(mesh).values():
        if not want.partial:
            _changed(world, have, want, np.float32)


def clusters(world):
    """Every row of the table on GPUs and clusters of two."""
    _table(world, _mesh(world, cluster_x=2))


def blocks(world):
    """The same on GPUs and grids of two programs, which are cooperative."""
    _table(world, _mesh(world, block=2))


def replayed(world):
    """In a graph that is replayed."""
    have, want = _along(_mesh(world))["all-reduce"]
    rounds = times(world, 50)
    x, expected = (torch.from_numpy(np.ascontiguousarray(one[world.rank])).to(world.device)
                   for one in shards(have, want, np.float32, rounds))
    y = torch.zeros_like(expected)
    call = change.freeze((1, ), x, y, world, *constants(have, want, rounds))
    call(x, y, world)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(3):
            change[(1, )](x, y, world, *constants(have, want, rounds))
    y.zero_()
    for _ in range(times(world, 20)):
        graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(y, expected)


def products(world):
    """tle.distributed_dot of every way to spread its operands over GPUs and clusters."""
    for case in CASES:
        *arrays, numbers = launch(_mesh(world, cluster_x=2), case, 16 * world.size)     # no piece of K is less than 16
        a, b, expected = (torch.from_numpy(np.ascontiguousarray(one[world.rank])).to(world.device) for one in arrays)
        out = torch.zeros_like(expected)
        multiply[(1, )](a, b, out, world, *numbers)
        torch.cuda.synchronize()
        assert torch.equal(out, expected), case


def others(world):
    """tle.remote of a tensor whose shards are in symmetric memory, two ranks each."""
    world = pair(world)
    if world is None:
        return
    clusters = _mesh(world, cluster_x=2)
    whole = torch.arange(512, dtype=torch.float32, device=world.device).reshape(16, 32)
    x, y = world.symmetric((16, 16), torch.float32, "x"), torch.zeros((2, 8, 16), device=world.device)
    x.copy_(whole[:, 16 * world.rank:16 * world.rank + 16])
    torch.cuda.synchronize()
    world.barrier()
    there = whole[:, 16 * (1 - world.rank):][:, :16]
    for kind in ("coordinates", "number", "box"):
        y.zero_()
        shards_of_others[(1, )](x, y, world, clusters, kind)
        assert torch.equal(y, torch.stack([there[8:], there[:8]])), kind
    world.barrier()


def descriptors(world):
    """tle.remote of descriptors that the host has made of all ranks' arrays: tiles by TMA over NVLink."""
    x, y = world.symmetric((16, 16), torch.float16, "x"), torch.zeros((16, 16), dtype=torch.float16, device=world.device)
    arrays = [x if rank == world.rank else world.peer(x, rank) for rank in range(world.size)]
    made = tuple(mimw.TensorDescriptor.from_tensor(one, [16, 16]) for one in arrays)
    for _ in range(20):
        y.zero_()
        fetch[(1, )](made, x, y, world, 16, world.size, _mesh(world), True, False)
        assert torch.equal(y, (torch.arange(256, device=y.device).view(16, 16) + 1000 * ((world.rank + 1) % world.size)).half())


def sums(world):
    """The same bits at all ranks: of random numbers, in bf16, added in the order of the ranks."""
    have, want = _along(_mesh(world))["all-reduce"]
    parts = [torch.randn((4, 1, 16, 32), generator=torch.Generator().manual_seed(rank)).bfloat16() for rank in range(world.size)]
    x, y = parts[world.rank].to(world.device), torch.zeros((4, 1, 16, 32), dtype=torch.bfloat16, device=world.device)
    change[(1, )](x, y, world, *constants(have, want, 4))
    total = parts[0].float()
    for part in parts[1:]:
        total = total + part.float()
    assert torch.equal(y.cpu(), total.bfloat16())


CHECKS = devices, nodes, clusters, blocks, replayed, products, others, descriptors, sums

if __name__ == "__main__":
    sys.exit(main(CHECKS))
