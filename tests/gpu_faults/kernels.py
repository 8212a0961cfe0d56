"""Kernels whose launches fault, or are just right: what is wrong comes as an argument, since the compiler refuses constants.

Input: arrays or descriptors, and numbers known at run time only. Output: y. For example:

    store(y_desc, -8, 0)        TMA writes a block whose corner is negative: an illegal instruction on a GPU

Imported by the process that launches: a kernel asks for the GPU when it is made.
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx


@mimw.jit
def store(y_desc, row, column):
    """Triton's own word; no word of ours."""
    y_desc.store([row, column], tl.full((8, 16), 1, tl.float16))


@mimw.jit
def reduce(y_desc, row, column):
    y_desc.atomic_add([row, column], tl.full((8, 16), 1, tl.float16))


@mimw.jit
def load(x_desc, y_ptr, row, column):
    at = tl.arange(0, 8)[:, None] * 16 + tl.arange(0, 16)[None, :]
    tl.store(y_ptr + at, x_desc.load([row, column]))


@mimw.jit
def store_line(y_desc, at, HOW: tl.constexpr):
    """By a word of TLX, in one dimension."""
    dtype: tl.constexpr = tlx.dtype_of(y_desc)
    tile = tlx.local_alloc((16, ), dtype, 1)
    tlx.local_store(tile[0], tl.full((16, ), 1, dtype))
    tlx.fence("async_shared")
    tlx.async_descriptor_store(y_desc, tile[0], [at], store_reduce=HOW)
    tlx.async_descriptor_store_wait(0)


@mimw.jit
def prefetch(x_desc, y_ptr, row, column):
    tlx.async_descriptor_prefetch_tensor(x_desc, [row, column])
    tl.store(y_ptr, 1.0)


@mimw.jit
def multicast(x_desc, y_ptr, row, column):
    tile = tlx.local_alloc((8, 16), tl.float16, 1)
    full = tlx.alloc_barriers(1)
    tlx.barrier_expect_bytes(full[0], 256)
    tlx.async_descriptor_load(x_desc, tile[0], [row, column], full[0], multicast_targets=[0])
    tlx.barrier_wait(full[0], 0)
    at = tl.arange(0, 8)[:, None] * 16 + tl.arange(0, 16)[None, :]
    tl.store(y_ptr + at, tlx.local_load(tile[0]))


@mimw.jit
def rows(x_desc, y_desc, from_ptr, to_ptr, first, column):
    """Rows that are gathered from `first` on, and scattered from `column` on."""
    tile = tlx.local_alloc((8, 64), tl.float16, 1)
    full = tlx.alloc_barriers(1)
    tlx.barrier_expect_bytes(full[0], 1024)
    tlx.async_descriptor_gather(x_desc, tile[0], tl.load(from_ptr + tl.arange(0, 8)), first, full[0])
    tlx.barrier_wait(full[0], 0)
    tlx.async_descriptor_scatter(y_desc, tile[0], tl.load(to_ptr + tl.arange(0, 8)), column)
    tlx.async_descriptor_store_wait(0)


@mimw.jit
def made(x_ptr, y_ptr, extent, stride, ahead, STORES: tl.constexpr):
    """By a descriptor that the kernel makes of numbers that only the launch knows."""
    desc = tl.make_tensor_descriptor((x_ptr if not STORES else y_ptr) + ahead, [extent, 64], [stride, 1], [8, 16])
    if STORES:
        desc.store([0, 0], tl.full((8, 16), 1, tl.float16))
    else:
        at = tl.arange(0, 8)[:, None] * 16 + tl.arange(0, 16)[None, :]
        tl.store(y_ptr + at, desc.load([0, 0]))


@mimw.jit
def bulk_load(x_ptr, y_ptr, ahead, size, EXPECTED: tl.constexpr):
    line = tlx.local_alloc((64, ), tl.float16, 1)
    full = tlx.alloc_barriers(1)
    tlx.local_store(line[0], tl.full((64, ), -1, tl.float16))
    tlx.barrier_expect_bytes(full[0], EXPECTED)
    tlx.async_load(x_ptr + ahead, line[0], bulk=True, barrier=full[0], bulk_size=size)
    tlx.barrier_wait(full[0], 0)
    tl.store(y_ptr + tl.arange(0, 64), tlx.local_load(line[0]))


@mimw.jit
def bulk_store(y_ptr, ahead, size):
    line = tlx.local_alloc((64, ), tl.float16, 1)
    tlx.local_store(line[0], tl.full((64, ), 1, tl.float16))
    tlx.fence("async_shared")
    tlx.async_store(y_ptr + ahead, line[0], size)
    tlx.async_descriptor_store_wait(0)


@mimw.jit
def arrivals(y_ptr, second, parity):
    """One arrival, or two if `second` > 0, on a barrier made for one; then a wait for a phase."""
    bar = tlx.alloc_barriers(1)
    tlx.barrier_arrive(bar[0])
    tlx.barrier_arrive(bar[0], pred=second > 0)
    tlx.barrier_wait(bar[0], parity)
    tl.store(y_ptr, 1.0)


@mimw.jit
def most_arrivals(y_ptr, MOST: tl.constexpr):
    """All arrivals of a phase at once, as many as one counts; then the same for the next phase."""
    bar = tlx.alloc_barriers(1, arrive_count=MOST)
    for phase in range(2):
        tlx.barrier_arrive(bar[0], MOST)
        tlx.barrier_wait(bar[0], phase)
    tl.store(y_ptr, 1.0)


@mimw.jit
def groups(x_ptr, y_ptr, MANY: tl.constexpr):
    """Of each kind of group one is there, and MANY may be unfinished before none may."""
    tiles = tlx.local_alloc((64, 64), tl.float16, 1)
    out = tlx.local_alloc((64, 64), tl.float32, 1)
    at = tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :]
    tlx.async_load_commit_group([tlx.async_load(x_ptr + at, tiles[0])])
    tlx.async_load_wait_group(MANY)
    tlx.async_load_wait_group(0)
    acc = tlx.async_dot_wait(MANY, tlx.async_dot(tiles[0], tiles[0]))
    tlx.local_store(out[0], tlx.async_dot_wait(0, acc))
    tlx.fence("async_shared")
    tlx.async_store(y_ptr, tlx.local_reshape(out[0], (4096, )), 16384)
    tlx.async_descriptor_store_wait(MANY)
    tlx.async_descriptor_store_wait(0)


@mimw.jit
def expected(x_desc, y_ptr, more, copies, BYTES: tl.constexpr):
    """Blocks of 256 bytes for a phase that was told to expect BYTES, and BYTES once more if `more` > 0."""
    tile = tlx.local_alloc((8, 16), tl.float16, 1)
    full = tlx.alloc_barriers(1, arrive_count=2)
    tlx.barrier_expect_bytes(full[0], BYTES)
    if more > 0:
        tlx.barrier_expect_bytes(full[0], BYTES)
    else:
        tlx.barrier_arrive(full[0])
    for _ in range(copies):
        tlx.async_descriptor_load(x_desc, tile[0], [0, 0], full[0])
    tlx.barrier_wait(full[0], 0)
    tl.store(y_ptr, 1.0)


@mimw.jit
def arrive_at(y_ptr, rank):
    """An arrival on the barrier of the CTA with that rank of a cluster of two."""
    bar = tlx.alloc_barriers(1)
    tlx.barrier_arrive(bar[0], remote_cta_rank=rank)
    tlx.cluster_barrier()
    tl.store(y_ptr + tlx.cluster_cta_rank(), 1.0)


@mimw.jit
def elements(y_ptr, at, STEP: tl.constexpr):
    """Elements from a place that the compiler was told to be a multiple of STEP. A sum, as Triton keeps no hint on an argument."""
    place = tl.multiple_of(at + tl.program_id(0), STEP)
    tl.store(y_ptr + place + tl.arange(0, 1024), tl.full((1024, ), 1, tl.float16))


@mimw.jit
def box(y_ptr, row):
    """The box of 32 rows of a buffer that begins at a row: its elements are their rows' numbers."""
    tile = tlx.local_alloc((64, 64), tl.float32, 1)
    tlx.local_store(tile[0], tl.arange(0, 64)[:, None].to(tl.float32) + tl.zeros((64, 64), tl.float32))
    at = tl.arange(0, 32)[:, None] * 64 + tl.arange(0, 64)[None, :]
    tl.store(y_ptr + at, tlx.local_load(tlx.local_slice(tile[0], [row, 0], [32, 64])))
