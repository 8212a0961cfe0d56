"""05  Layer norm over rows too long for one SM: a cluster splits each row, and its CTAs exchange two numbers.

    python tutorials/05_cluster_layer_norm.py    on a GPU: check, measure against torch and a copy; elsewhere: simulate

y = (x - mean) / sqrt(variance + eps) w + b needs each x twice, once for the statistics of its row and once for y. A row
of 65536 numbers does not fit one SM with room to spare, and reading it twice from memory would cost half the speed. So
the CTAs of a cluster split the row. Each keeps its part in shared memory, and sends its statistics to the others:
`async_remote_shmem_store` writes into another CTA's shared memory and counts the bytes on a barrier there, as a TMA
load does.

Such an exchange takes about a microsecond, and the memory delivers a part of a row in two. So two tasks take the rows
in turn, as in tutorial 03: while one waits for the statistics of the other CTAs, the other one computes.

How the program is run and measured is harness.py's.

The library's version is src/mimw/kernels/norm: bulk copies by a warp of their own, rows of any length and type, residuals, RMSNorm;
gradients are in src/mimw/kernels/norm_backward.

Next: 06_attention.py, with three roles.
"""

import numpy as np
import triton.language as tl

import mimw
import mimw.tlx as tlx


@mimw.jit
def start_load(x_ptr, tile, row, ROWS, N, columns):
    """Start the copy of this CTA's part of a row, one group; past the last row of zeros, so that groups are counted."""
    tlx.async_load(x_ptr + tl.cast(row, tl.int64) * N + columns, tile, mask=(columns < N) & (row < ROWS))
    tlx.async_load_commit_group()


@mimw.jit
def send_statistics(x, parts, arrived, rank, columns, N, BLOCK: tl.constexpr, CLUSTER: tl.constexpr):
    """Tell every CTA of the cluster, this one included, the statistics of x, this CTA's part of a row."""
    # Step 1. The mean of this part, and the sum of squares about it. A second pass over registers costs little, and the
    # shortcut E[x^2] - E[x]^2, which loses all digits where the mean is large, is not needed.
    mean = tl.sum(x) / tl.maximum(tl.minimum(N - rank * BLOCK, BLOCK), 1)
    centred = tl.where(columns < N, x - mean, 0.0)
    both = tl.where(tl.arange(0, 2) == 0, mean, tl.sum(centred * centred))
    # Step 2. Each CTA expects 8 bytes from each, and writes its 8 into the place of its own rank in each. An early
    # sender's bytes may come before they are expected: the phase ends when arrivals and bytes both add up.
    tlx.barrier_expect_bytes(arrived, 8 * CLUSTER)
    for cta in tl.static_range(CLUSTER):
        tlx.async_remote_shmem_store(parts[rank], both, cta, arrived)


@mimw.jit
def row_statistics(parts, arrived, phase, N, BLOCK: tl.constexpr, CLUSTER: tl.constexpr):
    """Mean and variance of a whole row, from all CTAs' parts."""
    tlx.barrier_wait(arrived, phase)
    # Step 3. The pairs that arrived, as one small tile. Chan's rule puts parts together without loss: squares about the
    # common mean are those about the part's own, and the distance of the two, once for each element.
    means, squares = tlx.local_load(parts).split()
    counts = tl.maximum(tl.minimum(N - tl.arange(0, CLUSTER) * BLOCK, BLOCK), 0)
    mean = tl.sum(means * counts) / N
    return mean, tl.sum(squares + (means - mean) * (means - mean) * counts) / N


@mimw.jit
def layer_norm(x_ptr, w_ptr, b_ptr, y_ptr, ROWS, N, eps, BLOCK: tl.constexpr, CLUSTER: tl.constexpr,
               STAGES: tl.constexpr):
    """y = layer norm of each row of x[ROWS, N]; CLUSTER CTAs a row, BLOCK columns a CTA."""
    # Step 4. Who am I? Cluster c takes the rows c, c + clusters, ...; its CTA of rank r has the columns r BLOCK and on.
    rank = tlx.cluster_cta_rank()
    cluster, clusters = tl.program_id(0) // CLUSTER, tl.num_programs(0) // CLUSTER

    # Step 5. The nouns: w and b, which stay; and for each of the two tasks a ring of row parts, and room for what the
    # CTAs say about two rows. Two, because who has sent for row i + 1 has read what came for row i - 1, not for row i.
    w_tile = tlx.local_alloc((BLOCK, ), tlx.dtype_of(w_ptr), 1)
    b_tile = tlx.local_alloc((BLOCK, ), tlx.dtype_of(b_ptr), 1)
    tiles = tlx.local_alloc((BLOCK, ), tlx.dtype_of(x_ptr), 2 * STAGES)
    parts = tlx.local_alloc((CLUSTER, 2), tl.float32, 2 * 2)
    arrived = tlx.alloc_barriers(2 * 2)
    w_and_b_arrived = tlx.alloc_barriers(1)

    with tlx.async_tasks():
        with tlx.async_task("default", replicate=2):              # rows
            me: tl.constexpr = tlx.async_task_replica_id()
            columns = rank * BLOCK + tl.arange(0, BLOCK)
            first, stride = cluster + me * clusters, 2 * clusters

            # Step 6. Be early: this task's first STAGES rows. Task 0 also loads w and b, together with its first row.
            if me == 0:
                tlx.async_load(w_ptr + columns, w_tile[0], mask=columns < N)
                tlx.async_load(b_ptr + columns, b_tile[0], mask=columns < N)
            for stage in tl.static_range(STAGES):
                start_load(x_ptr, tiles[me * STAGES + stage], first + stage * stride, ROWS, N, columns)

            for row in range(first, ROWS, stride):
                step = (row - first) // stride
                slot, turn = me * STAGES + step % STAGES, me * 2 + step % 2
                # Step 7. Once the row is in registers its place is free for the row that is STAGES rows ahead.
                tlx.async_load_wait_group(STAGES - 1)
                x = tlx.local_load(tiles[slot]).to(tl.float32)
                start_load(x_ptr, tiles[slot], row + STAGES * stride, ROWS, N, columns)
                send_statistics(x, parts[turn], arrived[turn], rank, columns, N, BLOCK, CLUSTER)
                mean, variance = row_statistics(parts[turn], arrived[turn], step // 2 % 2, N, BLOCK, CLUSTER)
                # Step 8. Only who issued a cp.async can wait for it: task 0 has, and its arrival lets the other go on. The first
                # phase of this barrier is its only one, so every later wait for parity 0 returns at once.
                if me == 0:
                    tlx.barrier_arrive(w_and_b_arrived[0], pred=row == first)
                tlx.barrier_wait(w_and_b_arrived[0], 0)
                w, b = tlx.local_load(w_tile[0]).to(tl.float32), tlx.local_load(b_tile[0]).to(tl.float32)
                # Step 9. One fused multiply and add normalises an element, another one scales and shifts it.
                scale = tl.rsqrt(variance + eps)
                y = (x * scale - mean * scale) * w + b
                tl.store(y_ptr + tl.cast(row, tl.int64) * N + columns, y.to(tlx.dtype_of(y_ptr)), mask=columns < N)
            # Step 10. The last copies, of no rows, still write their zeros here: no CTA leaves before. That other CTAs
            # may still write here is the compiler's care: it synchronises the CTAs of a cluster at the end.
            tlx.async_load_wait_group(0)


# Step 11. What if? One edit each, and what `mimw.check` says:
#
#     `turn = me * 2`, room for one row     CopyReadEarly       a fast CTA's numbers for the next row replace unread ones
#     `wait_group(STAGES)`                  CopyReadEarly       the row is still on its way
#     `8 * (CLUSTER - 1)` bytes             CopyReadEarly       the phase may end before the last number is there
#     no `wait_group(0)`                    UnfinishedAtExit    cp.async writes into what is another CTA's memory by then


def arguments(x, w, b, y, clusters, CLUSTER=8, STAGES=2, num_warps=8, eps=1e-5) -> tuple[tuple, tuple, dict]:
    """(grid, args, meta) of the launch that writes the layer norm of each row of x into y; both are contiguous."""
    rows, n = x.shape
    BLOCK = max(16, 1 << (-(-n // CLUSTER) - 1).bit_length())
    return (CLUSTER * min(clusters, rows), ), (x, w, b, y, rows, n, eps), dict(
        BLOCK=BLOCK, CLUSTER=CLUSTER, STAGES=STAGES, num_warps=num_warps, ctas_per_cga=(CLUSTER, 1, 1))


# Measured on an H200 (bf16, torch 2.11.0, 2026-11-21); a device copy reads and writes each byte once, as layer norm does at best:
#
#     1152 x 65536: 87.7 us 3442 GB/s; torch 180.6 us 1672 GB/s (ratio 2.058), copy 74.8 us 4036 GB/s (ratio 0.853)
#     1152 x 131072: 162.5 us 3717 GB/s; torch 350.3 us 1724 GB/s (ratio 2.156), copy 145.9 us 4140 GB/s (ratio 0.898)
#     4 x 65536: 7.2 us 145 GB/s; torch 130.9 us 8 GB/s (ratio 18.102), copy 3.9 us 266 GB/s (ratio 0.544)
#
# How many clusters fit at a time is worth a factor of two: an H200 has 132 SMs, but room for 15 clusters of 8 only, as no
# cluster reaches over the border of a GPC and GPCs differ in size. With 16 clusters the sixteenth waits for a whole pass.


def case():
    """A few rows on numpy arrays, and what should come out: `mimw check 05_cluster_layer_norm.py:case`."""
    random = np.random.default_rng(0)
    x, w, b = (random.standard_normal(shape, np.float32).astype(np.float16) for shape in ((7, 500), 500, 500))
    y = np.zeros_like(x)
    wide = x.astype(np.float64)
    expected = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5) * w + b
    return mimw.Case(layer_norm, *arguments(x, w, b, y, clusters=2, CLUSTER=4, num_warps=4), expected={"y_ptr": expected})


def measure_one(rows, n):
    """One line for the GPU."""
    import torch
    from measure import measured, resident_clusters
    x, w, b = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for shape in ((rows, n), n, n))
    y, copied = torch.empty_like(x), torch.empty_like(x)
    # As many clusters as run at a time, and all with as many rows.
    grid, args, meta = arguments(x, w, b, y, clusters=1)
    room = resident_clusters(layer_norm[grid](*args, **meta), meta["CLUSTER"])
    grid, args, meta = arguments(x, w, b, y, clusters=-(-rows // -(-rows // room)))
    expected = torch.nn.functional.layer_norm(x.double(), (n, ), w.double(), b.double())
    print(measured("cluster layer norm", dict(B=rows, N=n), meta, lambda: layer_norm[grid](*args, **meta),
                   {"torch": lambda: torch.nn.functional.layer_norm(x, (n, ), w, b), "copy": lambda: copied.copy_(x)},
                   y, expected, flops=0, allowed=4e-3, moved=2 * x.nbytes))


if __name__ == "__main__":
    import harness
    harness.run(case, measure_one, (1152, 65536), (1152, 131072), (4, 65536))
