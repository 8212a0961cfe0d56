"""05  Layer norm over rows too long for one SM: a cluster shares each row, and its CTAs tell each other two numbers.

    python tutorials/05_cluster_layer_norm.py    on a GPU: check, measure against torch and a copy; elsewhere: simulate

y = (x - mean) / sqrt(variance + eps) w + b needs each x twice, once for the statistics of its row and once for y. A row
of 65536 numbers does not fit one SM with room to spare, and reading it twice from memory would cost half the speed. So
the CTAs of a cluster split the row. Each keeps its part in shared memory, and they tell each other what they found:
`async_remote_shmem_store` writes into another CTA's shared memory and counts the bytes on a barrier there, as a TMA
load does.

Such an exchange takes about a microsecond, and the memory delivers a row in two. So nobody waits for it: as in tutorial
01 the art is to be early, here with the statistics of the next row.

Next: 06_attention_forward.py, with three roles.
"""

import sys

import numpy as np
import triton.language as tl

import mimw
import mimw.tlx as tlx

# Step 5 says why four.
TURNS = tl.constexpr(4)


@mimw.jit
def start_load(x_ptr, tile, row, ROWS, N, columns):
    """Start the copy of this CTA's part of a row, one group; past the last row of zeros, so that groups are counted."""
    tlx.async_load(x_ptr + row.to(tl.int64) * N + columns, tile, mask=(columns < N) & (row < ROWS))
    tlx.async_load_commit_group()


@mimw.jit
def send_statistics(tile, parts, arrived, turn, rank, columns, N, BLOCK: tl.constexpr, CLUSTER: tl.constexpr):
    """Tell every CTA of the cluster, this one included, the statistics of this CTA's part of a row."""
    # Step 1. The mean of this part, and the sum of squares about it. A second pass over shared memory costs little, and
    # the shortcut E[x^2] - E[x]^2, which loses all digits where the mean is large, is not needed.
    x = tlx.local_load(tile).to(tl.float32)
    mean = tl.sum(x) / tl.maximum(tl.minimum(N - rank * BLOCK, BLOCK), 1)
    centred = tl.where(columns < N, x - mean, 0.0)
    both = tl.where(tl.arange(0, 2) == 0, mean, tl.sum(centred * centred))
    # Step 2. Each CTA expects 8 bytes from each, and writes its 8 into the place of its own rank in each. An early
    # sender's bytes may come before they are expected: the phase ends when arrivals and bytes both add up.
    tlx.barrier_expect_bytes(arrived[turn], 8 * CLUSTER)
    for cta in tl.static_range(CLUSTER):
        tlx.async_remote_shmem_store(parts[turn][rank], both, cta, arrived[turn])


@mimw.jit
def row_statistics(parts, arrived, turn, phase, N, BLOCK: tl.constexpr, CLUSTER: tl.constexpr):
    """Mean and variance of a whole row, from all CTAs' parts."""
    tlx.barrier_wait(arrived[turn], phase)
    # Step 3. The pairs that arrived, as one small tile. Chan's rule puts parts together without loss: squares about the
    # common mean are those about the part's own, and the distance of the two, once for each element.
    means, squares = tlx.local_load(parts[turn]).split()
    counts = tl.maximum(tl.minimum(N - tl.arange(0, CLUSTER) * BLOCK, BLOCK), 0)
    mean = tl.sum(means * counts) / N
    return mean, tl.sum(squares + (means - mean) * (means - mean) * counts) / N


@mimw.jit
def layer_norm(x_ptr, w_ptr, b_ptr, y_ptr, ROWS, N, eps, BLOCK: tl.constexpr, CLUSTER: tl.constexpr,
               STAGES: tl.constexpr):
    """y = layer norm of each row of x[ROWS, N]; CLUSTER CTAs a row, BLOCK columns a CTA."""
    # Step 4. Who am I? Cluster c takes the rows c, c + clusters, ...; its CTA of rank r has the columns from r BLOCK
    # on.
    rank = tlx.cluster_cta_rank()
    first, clusters = tl.program_id(0) // CLUSTER, tl.num_programs(0) // CLUSTER
    columns = rank * BLOCK + tl.arange(0, BLOCK)

    # Step 5. The nouns: a ring of row parts; w and b, which stay; and what the CTAs say. A CTA sends for row i + 1
    # before it reads what came for row i, and others may be a row ahead of it or behind: four rows' messages can be
    # under way, from i - 1 to i + 2.
    tiles = tlx.local_alloc((BLOCK, ), tlx.dtype_of(x_ptr), STAGES)
    w_tile = tlx.local_alloc((BLOCK, ), tlx.dtype_of(w_ptr), 1)
    b_tile = tlx.local_alloc((BLOCK, ), tlx.dtype_of(b_ptr), 1)
    parts = tlx.local_alloc((CLUSTER, 2), tl.float32, TURNS)
    arrived = tlx.alloc_barriers(TURNS)

    # Step 6. The prologue. Row parts are loaded STAGES ahead. Of all groups the first row's is waited for alone; w and
    # b come second.
    start_load(x_ptr, tiles[0], first, ROWS, N, columns)
    tlx.async_load(w_ptr + columns, w_tile[0], mask=columns < N)
    tlx.async_load(b_ptr + columns, b_tile[0], mask=columns < N)
    tlx.async_load_commit_group()
    for stage in tl.static_range(1, STAGES):
        start_load(x_ptr, tiles[stage], first + stage * clusters, ROWS, N, columns)
    tlx.async_load_wait_group(STAGES)
    send_statistics(tiles[0], parts, arrived, 0, rank, columns, N, BLOCK, CLUSTER)

    for row in range(first, ROWS, clusters):
        step = (row - first) // clusters
        # Step 7. First the next row's statistics, then what the others said of this row: that was sent a row ago and is
        # there by now.
        tlx.async_load_wait_group(STAGES - 2)
        if row + clusters < ROWS:
            send_statistics(tiles[(step + 1) % STAGES], parts, arrived, (step + 1) % TURNS, rank, columns, N, BLOCK,
                            CLUSTER)
        mean, variance = row_statistics(parts, arrived, step % TURNS, step // TURNS % 2, N, BLOCK, CLUSTER)
        # Step 8. The row is still in shared memory. Then its place is free for the row that is STAGES rows ahead.
        x = tlx.local_load(tiles[step % STAGES]).to(tl.float32)
        w, b = tlx.local_load(w_tile[0]).to(tl.float32), tlx.local_load(b_tile[0]).to(tl.float32)
        y = (x - mean) * tl.rsqrt(variance + eps) * w + b
        start_load(x_ptr, tiles[step % STAGES], row + STAGES * clusters, ROWS, N, columns)
        tl.store(y_ptr + row.to(tl.int64) * N + columns, y.to(tlx.dtype_of(y_ptr)), mask=columns < N)
    # Step 9. The last copies, of no rows, still write their zeros here: nobody leaves before. That others may still
    # write to it is the compiler's care: it makes the CTAs of a cluster meet at the end.
    tlx.async_load_wait_group(0)


def arguments(x, w, b, y, clusters, CLUSTER=4, STAGES=4, num_warps=16, eps=1e-5):
    """(grid, args, meta) of the launch that writes the layer norm of each row of x into y; both are contiguous."""
    rows, n = x.shape
    BLOCK = max(16, 1 << (-(-n // CLUSTER) - 1).bit_length())
    return (CLUSTER * min(clusters, rows), ), (x, w, b, y, rows, n, eps), dict(
        BLOCK=BLOCK, CLUSTER=CLUSTER, STAGES=STAGES, num_warps=num_warps, ctas_per_cga=(CLUSTER, 1, 1))


# Measured on an H200 (this program, bf16; a device copy reads and writes each byte once, as layer norm does at best):
#
#     MEASURED-05


def simulate_one():
    """A few rows on the simulator, under a few interleavings of the CTAs."""
    random = np.random.default_rng(0)
    x, w, b = (random.standard_normal(shape, np.float32).astype(np.float16) for shape in ((7, 500), 500, 500))
    y = np.zeros_like(x)
    grid, args, meta = arguments(x, w, b, y, clusters=2, STAGES=3, num_warps=4)
    print("checked:", mimw.check(layer_norm, grid, *args, seeds=3, **meta))
    mimw.simulate(layer_norm, grid, *args, **meta)
    wide = x.astype(np.float64)
    expected = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5) * w + b
    print("simulated; largest difference to numpy:", np.abs(y - expected).max())


def main():
    from mimw.testing import gpu_available
    if not gpu_available():
        return simulate_one()
    import torch
    from measure import measured
    shapes = [tuple(map(int, sys.argv[1:]))] if len(sys.argv) > 1 else [(1152, 65536), (1152, 131072), (4, 65536)]
    for rows, n in shapes:
        x, w, b = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for shape in ((rows, n), n, n))
        y, copied = torch.empty_like(x), torch.empty_like(x)
        CLUSTER = 8 if n > 65536 else 4
        # One CTA an SM. An H200 has room for 32 clusters of 4, or 16 of 8: they do not reach over the borders of its
        # GPCs.
        grid, args, meta = arguments(x, w, b, y, clusters=128 // CLUSTER, CLUSTER=CLUSTER)
        expected = torch.nn.functional.layer_norm(x.double(), (n, ), w.double(), b.double())
        print(measured("cluster layer norm", dict(B=rows, N=n), meta, lambda: layer_norm[grid](*args, **meta),
                       {"torch": lambda: torch.nn.functional.layer_norm(x, (n, ), w, b),
                        "copy": lambda: copied.copy_(x)},
                       y, expected, flops=0, allowed=4e-3, moved=2 * x.nbytes))


if __name__ == "__main__":
    main()
