"""Tensors that are spread over several real GPUs: each way to spread them in another way, products, shards of others.

    python -m torch.distributed.run --standalone --nproc-per-node 2 -m tests.two_gpus_sharded [names]

Input: one process for each GPU, two of them. Output: as of tests/two_gpus.py.
"""

import sys

import numpy as np
import torch

import mimw
import mimw.tle as tle
from tests.kernels.remote_tile import fetch
from tests.kernels.resharding import change, constants, grid_of, shards, shards_of_others
from tests.kernels.sharded_product import CASES, launch, multiply
from tests.tle.test_reshard_gpus import BLOCKS, CLUSTERS, ON_TWO, PAIR, rows
from tests.two_gpus import main

TIMES = 50


def _changed(world, have, want, dtype, launches=1):
    x, expected = (torch.from_numpy(np.ascontiguousarray(one[world.rank])).to(world.device)
                   for one in shards(have, want, dtype, TIMES))
    y = torch.zeros_like(expected)
    for _ in range(launches):
        y.zero_()
        change[grid_of(have.mesh)](x, y, world, *constants(have, want, TIMES))
    torch.cuda.synchronize()
    assert torch.equal(y, expected), f"{have} -> {want} of {np.dtype(dtype).name}: {int((y != expected).sum())} elements"


def devices(world):
    """Along an axis of GPUs, 50 times in a launch, three launches without a barrier between."""
    for have, want in ON_TWO.values():
        if have.mesh.ndim == 1:
            for dtype in (np.float32, np.float16, np.int8):
                _changed(world, have, want, dtype, 3)


def clusters(world):
    """Every row of the table on GPUs and clusters of two."""
    for row, (have, want) in rows(CLUSTERS).items():
        if not want.partial:
            _changed(world, have, want, np.float32)


def blocks(world):
    """The same on GPUs and grids of two programs, which are cooperative."""
    for row, (have, want) in rows(BLOCKS).items():
        if not want.partial:
            _changed(world, have, want, np.float32)


def replayed(world):
    """In a graph that is replayed."""
    have, want = ON_TWO["all-reduce"]
    x, expected = (torch.from_numpy(np.ascontiguousarray(one[world.rank])).to(world.device)
                   for one in shards(have, want, np.float32, TIMES))
    y = torch.zeros_like(expected)
    call = change.freeze((1, ), x, y, world, *constants(have, want, TIMES))
    call(x, y, world)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(3):
            change[(1, )](x, y, world, *constants(have, want, TIMES))
    y.zero_()
    for _ in range(20):
        graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(y, expected)


def products(world):
    """tle.distributed_dot of every way to spread its operands over GPUs and clusters."""
    for case in CASES:
        *arrays, numbers = launch(CLUSTERS, case)
        a, b, expected = (torch.from_numpy(np.ascontiguousarray(one[world.rank])).to(world.device) for one in arrays)
        out = torch.zeros_like(expected)
        multiply[(1, )](a, b, out, world, *numbers)
        torch.cuda.synchronize()
        assert torch.equal(out, expected), case


def others(world):
    """tle.remote of a tensor whose shards are in symmetric memory."""
    whole = torch.arange(512, dtype=torch.float32, device=world.device).reshape(16, 32)
    x, y = world.symmetric((16, 16), torch.float32, "x"), torch.zeros((2, 8, 16), device=world.device)
    x.copy_(whole[:, 16 * world.rank:16 * world.rank + 16])
    torch.cuda.synchronize()
    world.barrier()
    there = whole[:, 16 * (1 - world.rank):][:, :16]
    for kind in ("coordinates", "number", "box"):
        y.zero_()
        shards_of_others[(1, )](x, y, world, CLUSTERS, kind)
        assert torch.equal(y, torch.stack([there[8:], there[:8]])), kind
    world.barrier()


def descriptors(world):
    """tle.remote of descriptors that the host has made of both ranks' arrays: tiles by TMA over NVLink."""
    x, y = world.symmetric((16, 16), torch.float16, "x"), torch.zeros((16, 16), dtype=torch.float16, device=world.device)
    arrays = [x if rank == world.rank else world.peer(x, rank) for rank in range(2)]
    made = tuple(mimw.TensorDescriptor.from_tensor(one, [16, 16]) for one in arrays)
    for _ in range(20):
        y.zero_()
        fetch[(1, )](made, x, y, world, 16, 2, PAIR, True, False)
        assert (y[0, 1] == 1001 - 1000 * world.rank) and (y[15, 15] == 255 + 1000 * (1 - world.rank))


def sums(world):
    """The same bits at both ranks: of random numbers, in bf16."""
    have, want = tle.sharding(ON_TWO["all-reduce"][0].mesh, [], ["device"]), tle.sharding(ON_TWO["all-reduce"][0].mesh)
    parts = [torch.randn((4, 1, 16, 32), generator=torch.Generator().manual_seed(rank)).bfloat16() for rank in range(2)]
    x, y = parts[world.rank].to(world.device), torch.zeros((4, 1, 16, 32), dtype=torch.bfloat16, device=world.device)
    change[(1, )](x, y, world, *constants(have, want, 4))
    assert torch.equal(y.cpu(), (parts[0].float() + parts[1].float()).bfloat16())


CHECKS = devices, clusters, blocks, replayed, products, others, descriptors, sums

if __name__ == "__main__":
    sys.exit(main(CHECKS))
