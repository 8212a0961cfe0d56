"""The GEMM reduce-scatter whose sums are carried, with a task of its first program in place of the copy engines and their stream.

Input: a number of ranks and sizes, as `scattering` of products_of_ranks.py, and how many tiles are carried at once. Output: a
launch, as (kernel, grid, args, meta), and what each rank's c should be. For example:

    (kernel, grid, args, meta), c, expected = carrying(2, 256, 64, 64, programs=2, parcel=1)
    mimw.check(kernel, grid, *args, **meta)

`carry` does in the order of `mimw.ops.distributed.sum_engine` what the stream does. Shapes: a (m, k), b (k, n) of a rank.
Mistakes by `leave_out`: "started", no wait for the owner's launch; "done", none for a parcel's tiles.
"""

from dataclasses import replace

import ml_dtypes
import numpy as np
import triton.language as tl

import mimw
from mimw import tlx
from mimw.kernels import gemm_reduce_scatter
from mimw.kernels.consumers import consumer
from mimw.kernels.gemm.operands import RowsOfSeveral
from mimw.kernels.gemm.output import output
from mimw.kernels.gemm.roles import input_pipe, load_tiles
from mimw.kernels.gemm.tiles import Problem, output_tiles
from mimw.kernels.gemm_reduce_scatter.kernel import Carried, Symmetric, announce_to_carriers, compute, owned_tiles

from .products_of_ranks import SMALL, matrices


@mimw.jit
def parcel_to(there, here, first, end, TILE: tl.constexpr):
    """Copy tiles from number `first` to `end`, tile by tile."""
    for tile in range(first, end):
        at = tile * TILE + tl.arange(0, TILE)
        tl.store(there + at, tl.load(here + at, cache_modifier=".cg"))


@mimw.jit
def carry(slots, results, arrived, finished, started, sums, done, parcel, calls, world, tiles, TILE: tl.constexpr,
          SHARERS: tl.constexpr, EVERYWHERE: tl.constexpr, LEAVE_OUT: tl.constexpr):
    """What the stream of a rank does: each parcel, behind the signals of its tiles, to the owner that has begun the launch;
    EVERYWHERE then those of this rank's finished tiles to all."""
    me, size, parcels = tlx.world_rank(world), tlx.world_size(world), tl.cdiv(tiles, parcel)
    tlx.wait_signal(started + me, 1)
    tl.store(started + me, 0)
    for step in range(size if EVERYWHERE else size - 1):
        owner = (me + 1 + step) % size
        if LEAVE_OUT != "started" and owner != me:
            tlx.wait_signal(started + owner, 1)
            tl.store(started + owner, 0)
        for number in range(parcels):
            first, end, word = number * parcel, min((number + 1) * parcel, tiles), done + step * parcels + number
            if LEAVE_OUT != "done":
                tlx.wait_signal(word, (end - first) * SHARERS)
                tl.store(word, 0)
            here, there = sums + owner * tiles * TILE, me * tiles * TILE
            if owner != me:
                parcel_to(tlx.peer_pointer(slots, owner, world) + there, here, first, end, TILE)
                tlx.signal(tlx.peer_pointer(arrived, owner, world) + me * parcels + number, tl.load(calls), op="set")
            elif EVERYWHERE:
                for one in range(1, size):
                    peer = (me + one) % size
                    parcel_to(tlx.peer_pointer(results, peer, world) + there, here, first, end, TILE)
                    tlx.signal(tlx.peer_pointer(finished, peer, world) + me * parcels + number, tl.load(calls), op="set")


@mimw.jit
def scatter_with_carriers(a_desc, b_desc, c_desc, slots, arrived, started, results, finished, sums, done, parcel, calls, world,
                          sizes, FORM: tl.constexpr, LAUNCHES: tl.constexpr, LEAVE_OUT: tl.constexpr):
    """`reduce_scatter_gemm` with one task more, LAUNCHES times in a row."""
    problem, tiles = Problem(sizes.M, sizes.N, sizes.K), FORM.tiles
    EVERYWHERE: tl.constexpr = FORM.EVERYWHERE
    operands = RowsOfSeveral(a_desc, b_desc, tiles.B_IS_NK)
    for launch in tl.static_range(LAUNCHES):
        inputs = input_pipe(operands, tiles, FORM.STAGES)
        out = output(c_desc, tiles)
        call = tl.load(calls + tl.program_id(0)) + 1
        symmetric = Symmetric(slots, arrived, started, results, finished, call, world)
        with tlx.async_tasks():
            with tlx.async_task("default", num_regs=208, replicate=tiles.CONSUMERS):  # consumer
                me: tl.constexpr = tlx.async_task_replica_id()
                compute(inputs.reader(consumer(me)), out, problem, tiles, symmetric, Carried(sums, done, parcel), me, EVERYWHERE)
            with tlx.async_task(num_warps=1, num_regs=24):  # producer
                announce_to_carriers(started, calls, call, world)
                load_tiles(inputs.writer(), owned_tiles(problem, tiles, world, EVERYWHERE), operands)
            with tlx.async_task(num_warps=4, num_regs=24):  # engine
                if tl.program_id(0) == 0:
                    carry(slots, results, arrived, finished, started, sums, done, parcel, calls, world,
                          output_tiles(sizes.M, sizes.N, tiles), tiles.BM * tiles.BN, tiles.sharers(), EVERYWHERE, LEAVE_OUT)
        tl.store(calls + tl.program_id(0), call)


def carrying(ranks=2, m=256, n=64, k=64, programs=1, parcel=1, launches=1, leave_out="", everywhere=False,
             dtype=ml_dtypes.bfloat16, **configuration):
    chosen = gemm_reduce_scatter.Configuration(**(SMALL | configuration))
    chosen = replace(chosen, parcel_bytes=2 * chosen.bm * chosen.bn * parcel)
    world, a, b = matrices(ranks, m, n, k, False, dtype)
    c = world.each(lambda rank: np.full((m if everywhere else m // ranks, n), np.nan, dtype), "c")
    sizes = gemm_reduce_scatter.room_for(m, n, k, programs, ranks, np.dtype(dtype).name, everywhere, chosen)
    workspace = {name: world.symmetric(*one, name) for name, one in sizes.items()}
    grid, args, meta = gemm_reduce_scatter.arguments(a, b, c, workspace, world, programs, chosen, everywhere)
    total = sum(one.astype(np.float32) @ other.astype(np.float32) for one, other in zip(a, b))
    meta |= {"LAUNCHES": launches, "LEAVE_OUT": leave_out}
    return (scatter_with_carriers, grid, args, meta), c, [total] * ranks if everywhere else np.split(total, ranks)
