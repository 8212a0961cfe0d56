"""A tile of the next rank's array, fetched by TMA through a descriptor that the host has made of that array.

Input: a descriptor of each rank's array, in order. Output: the kernel. An example, with x symmetric:

    descriptors = tuple(world.each([TensorDescriptor.from_tensor(x[rank], [16, 16])] * 3) for rank in range(3))
    mimw.simulate(fetch, (1, ), descriptors, x, y, world, 16, 3, tle.device_mesh({"device": 3}), True, False)

Shapes: arrays of N x N. Without MEETS ranks do not wait for each other's arrays, a mistake; with STATIC all fetch from the last
rank.
"""

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx


@mimw.jit
def fetch(descriptors, x, y, world, N: tl.constexpr, SIZE: tl.constexpr, MESH: tl.constexpr, MEETS: tl.constexpr,
          STATIC: tl.constexpr):
    """A tile of the next rank's array, by TMA through the host's descriptor of it."""
    mesh = tle.bind_mesh(MESH, world)
    me = tle.shard_id(mesh, "device")
    rows = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(x + rows, (rows + 1000 * me).to(tl.float16))
    if MEETS:
        tle.distributed_barrier(mesh)
    tile, full = tlx.local_alloc((N, N), tl.float16, 1), tlx.alloc_barriers(1)
    there = tle.remote(descriptors, SIZE - 1 if STATIC else (me + 1) % SIZE, scope=mesh)
    tlx.barrier_expect_bytes(full[0], N * N * 2)
    tlx.async_descriptor_load(there, tile[0], [0, 0], full[0])
    tlx.barrier_wait(full[0], 0)
    tl.store(y + rows, tlx.local_load(tile[0]))
    if MEETS:
        tle.distributed_barrier(mesh)
