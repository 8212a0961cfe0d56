"""The smallest kernels that use each cluster word.

Shapes: x and y hold a tile of N, or of (R, C), elements of type D for each CTA, one below the other; a cluster is 2 or SIZE CTAs.
Each kernel is right, but for `sent_to_who_leaves`.
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx


@mimw.jit
def ranks(y_ptr):
    at = y_ptr + 2 * (tl.program_id(0) + tl.num_programs(0) * tl.program_id(1))
    tl.store(at, tlx.cluster_cta_rank())
    tl.store(at + 1, tlx.cluster_size_1d())


@mimw.jit
def handshake(x_ptr, y_ptr, scratch_ptr, N: tl.constexpr, ROUNDS: tl.constexpr):
    """Each CTA hands its tile to the next one in the cluster through global memory, then an arrival says so."""
    filled = tlx.alloc_barriers(1)
    emptied = tlx.alloc_barriers(1)
    rank = tlx.cluster_cta_rank()
    size = tlx.cluster_size_1d()
    me = tl.program_id(0)
    before = me - rank + (rank + size - 1) % size
    at = tl.arange(0, N)
    for step in range(ROUNDS):
        tlx.barrier_wait(emptied[0], (step & 1) ^ 1)
        tl.store(scratch_ptr + me * N + at, tl.load(x_ptr + (me * ROUNDS + step) * N + at))
        tlx.fence("gpu")
        tlx.barrier_arrive(filled[0], 1, remote_cta_rank=(rank + 1) % size)
        tlx.barrier_wait(filled[0], step & 1)
        tile = tl.load(scratch_ptr + before * N + at, volatile=True)
        tl.store(y_ptr + (me * ROUNDS + step) * N + at, tile)
        tlx.barrier_arrive(emptied[0], 1, remote_cta_rank=(rank + size - 1) % size, pred=step >= 0)


@mimw.jit
def swap(x_ptr, y_ptr, D: tl.constexpr, R: tl.constexpr, C: tl.constexpr):
    """Ordinary stores into the other CTA, made visible by a cluster barrier."""
    tiles = tlx.local_alloc((R, C), D, 2)
    rank = tlx.cluster_cta_rank()
    at = tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :]
    tlx.remote_shmem_store(tiles[1], tl.load(x_ptr + tl.program_id(0) * R * C + at), rank ^ 1)
    tlx.cluster_barrier()
    tl.store(y_ptr + tl.program_id(0) * R * C + at, tlx.local_load(tiles[1]))


@mimw.jit
def all_reduce(x_ptr, y_ptr, D: tl.constexpr, R: tl.constexpr, C: tl.constexpr, SIZE: tl.constexpr,
               ROUNDS: tl.constexpr):
    """Every CTA sends its tile to all, itself included, and sums what it got; no cluster barrier of the author's."""
    parts = tlx.local_alloc((R, C), D, 2 * SIZE)
    arrived = tlx.alloc_barriers(2)
    rank = tlx.cluster_cta_rank()
    at = tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :]
    for step in range(ROUNDS):
        where = (tl.program_id(0) * ROUNDS + step) * R * C + at
        slot = step % 2
        tlx.barrier_expect_bytes(arrived[slot], R * C * tlx.size_of(D) * SIZE)
        tile = tl.load(x_ptr + where)
        for peer in tl.static_range(SIZE):
            tlx.async_remote_shmem_store(parts[slot * SIZE + rank], tile, peer, arrived[slot])
        tlx.barrier_wait(arrived[slot], (step // 2) & 1)
        total = tl.zeros((R, C), tl.float32)
        for peer in tl.static_range(SIZE):
            total += tlx.local_load(parts[slot * SIZE + peer]).to(tl.float32)
        tl.store(y_ptr + where, total.to(D))


@mimw.jit
def copy_swap(x_ptr, y_ptr, D: tl.constexpr, R: tl.constexpr, C: tl.constexpr):
    """A bulk copy from this CTA's buffer into the other's."""
    mine = tlx.local_alloc((R, C), D, 1)
    theirs = tlx.local_alloc((R, C), D, 2)
    arrived = tlx.alloc_barriers(1)
    at = tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :]
    tlx.barrier_expect_bytes(arrived[0], R * C * tlx.size_of(D))
    tlx.local_store(mine[0], tl.load(x_ptr + tl.program_id(0) * R * C + at))
    tlx.fence("async_shared")
    tlx.async_remote_shmem_copy(theirs[1], mine[0], tlx.cluster_cta_rank() ^ 1, arrived[0])
    tlx.barrier_wait(arrived[0], 0)
    tl.store(y_ptr + tl.program_id(0) * R * C + at, tlx.local_load(theirs[1]))


@mimw.jit
def multicast(x_desc, y_ptr, R: tl.constexpr, C: tl.constexpr, COLUMNS: tl.constexpr):
    """Each CTA of a pair loads one half of the tile, rows or columns, into both."""
    tile = tlx.local_alloc((R, C), tlx.dtype_of(x_desc), 2)
    full = tlx.alloc_barriers(2)
    rank = tlx.cluster_cta_rank()
    tlx.barrier_expect_bytes(full[1], R * C * tlx.size_of(tlx.dtype_of(x_desc)))
    if COLUMNS:
        half = tlx.local_slice(tile[1], [0, rank * (C // 2)], [R, C // 2])
        tlx.async_descriptor_load(x_desc, half, [0, rank * (C // 2)], full[1], multicast_targets=[rank, rank ^ 1],
                                  eviction_policy="evict_last")
    else:
        half = tlx.local_slice(tile[1], [rank * (R // 2), 0], [R // 2, C])
        tlx.async_descriptor_load(x_desc, half, [rank * (R // 2), 0], full[1], multicast_targets=[0, 1], pred=rank < 2)
    tlx.barrier_wait(full[1], 0)
    at = tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :]
    tl.store(y_ptr + tl.program_id(0) * R * C + at, tlx.local_load(tile[1]))


@mimw.jit
def multicast_own(x_ptr, y_ptr, R: tl.constexpr, C: tl.constexpr, SLOT: tl.constexpr):
    """As `multicast` by rows, with a descriptor that the kernel makes, used by a task of its own."""
    tile = tlx.local_alloc((R, C), tlx.dtype_of(x_ptr), 1)
    full = tlx.alloc_barriers(1)
    slots = tlx.allocate_tensor_descriptor(2)
    if SLOT:
        desc = tlx.make_tensor_descriptor(slots[1], x_ptr, [R, C], [C, 1], [R // 2, C])
    else:
        desc = tl.make_tensor_descriptor(x_ptr, [R, C], [C, 1], [R // 2, C])
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tlx.barrier_wait(full[0], 0)
            at = tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :]
            tl.store(y_ptr + tl.program_id(0) * R * C + at, tlx.local_load(tile[0]))
        with tlx.async_task(num_warps=1):
            rank = tlx.cluster_cta_rank()
            tlx.prefetch(desc, tensormap=True)
            tlx.async_descriptor_prefetch_tensor(desc, [rank * (R // 2), 0])
            tlx.barrier_expect_bytes(full[0], R * C * tlx.size_of(tlx.dtype_of(x_ptr)))
            half = tlx.local_slice(tile[0], [rank * (R // 2), 0], [R // 2, C])
            tlx.async_descriptor_load(desc, half, [rank * (R // 2), 0], full[0], multicast_targets=[0, 1])


@mimw.jit
def around_tasks(x_ptr, y_ptr, N: tl.constexpr):
    """Cluster barriers before and after a region; the tasks store to the other CTA, the body reads after it."""
    tiles = tlx.local_alloc((N, ), tl.int32, 2)
    rank = tlx.cluster_cta_rank()
    tlx.cluster_barrier()
    with tlx.async_tasks():
        with tlx.async_task("default"):
            at = tl.arange(0, N)
            tlx.remote_shmem_store(tiles[0], tl.load(x_ptr + tl.program_id(0) * N + at), rank ^ 1)
        with tlx.async_task(num_warps=1):
            at = tl.arange(0, N)
            tlx.remote_shmem_store(tiles[1], tl.load(x_ptr + tl.program_id(0) * N + at) * 10, rank ^ 1)
        with tlx.async_task(num_warps=2):
            pass
    tlx.cluster_barrier()
    at = tl.arange(0, N)
    tl.store(y_ptr + tl.program_id(0) * N + at, tlx.local_load(tiles[0]) + tlx.local_load(tiles[1]))


@mimw.jit
def in_tasks(x_ptr, y_ptr, N: tl.constexpr):
    """Every task of a region meets at the cluster barrier; one that does nothing else fills the group of four warps."""
    tiles = tlx.local_alloc((N, ), tl.int32, 1)
    rank = tlx.cluster_cta_rank()
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tlx.cluster_barrier()
            at = tl.arange(0, N)
            tl.store(y_ptr + tl.program_id(0) * N + at, tlx.local_load(tiles[0]))
        with tlx.async_task(num_warps=2):
            at = tl.arange(0, N)
            tlx.remote_shmem_store(tiles[0], tl.load(x_ptr + tl.program_id(0) * N + at), rank ^ 1)
            tlx.cluster_barrier()
        with tlx.async_task(num_warps=2):
            tlx.cluster_barrier()


@mimw.jit
def reduce_in_tasks(x_ptr, y_ptr, R: tl.constexpr, C: tl.constexpr, SIZE: tl.constexpr, ROUNDS: tl.constexpr):
    """Row sums over the cluster: a producer task loads, the default task exchanges partial sums of shape (R, 1)."""
    tiles = tlx.local_alloc((R, C), tl.float32, 1)
    full = tlx.alloc_barriers(1)
    free = tlx.alloc_barriers(1)
    parts = tlx.local_alloc((R, 1), tl.float32, SIZE)
    arrived = tlx.alloc_barriers(1)
    rank = tlx.cluster_cta_rank()
    with tlx.async_tasks():
        with tlx.async_task("default"):
            rows = tl.arange(0, R)
            for step in range(ROUNDS):
                tlx.barrier_expect_bytes(arrived[0], R * 4 * (SIZE - 1))
                tlx.barrier_wait(full[0], step & 1)
                part = tl.sum(tlx.local_load(tiles[0]), axis=1, keep_dims=True)
                tlx.barrier_arrive(free[0])
                tlx.local_store(parts[rank], part)
                for peer in tl.static_range(SIZE):
                    if rank != peer:
                        tlx.async_remote_shmem_store(parts[rank], part, peer, arrived[0])
                tlx.barrier_wait(arrived[0], step & 1)
                total = tl.zeros((R, 1), tl.float32)
                for peer in tl.static_range(SIZE):
                    total += tlx.local_load(parts[peer])
                tl.store(y_ptr + (tl.program_id(0) * ROUNDS + step) * R + rows[:, None], total)
                tlx.cluster_barrier()
        with tlx.async_task(num_warps=4, num_regs=24):
            at = tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :]
            for step in range(ROUNDS):
                tlx.barrier_wait(free[0], (step & 1) ^ 1)
                tlx.local_store(tiles[0], tl.load(x_ptr + (tl.program_id(0) * ROUNDS + step) * R * C + at))
                tlx.barrier_arrive(full[0])
                tlx.cluster_barrier()


@mimw.jit
def sent_to_who_leaves(x_ptr):
    """A CTA sends 32 fp32 into another that may end before they land: nobody waits for `full`."""
    tile = tlx.local_alloc((32, ), tl.float32, 1)
    full = tlx.alloc_barriers(1)
    tlx.barrier_expect_bytes(full[0], 128)
    tlx.async_remote_shmem_store(tile[0], tl.load(x_ptr + tl.arange(0, 32)), tlx.cluster_cta_rank() ^ 1, full[0])    # send
