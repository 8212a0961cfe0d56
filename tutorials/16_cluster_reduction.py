"""16  Softmax over rows too long for one SM: a cluster reduces each row, through pointers into each other's shared memory.

    python tutorials/16_cluster_reduction.py     on a GPU: check, measure against torch and a copy; elsewhere: simulate

softmax(x) = exp(x - max) / sum(exp(x - max)) needs the maximum and the sum of a row before the first result. A row that stays in
registers is read once; one of 131072 numbers does not fit the registers of one SM, but those of eight. So the eight CTAs of a
cluster split each row, and have to send each other two numbers each.

Tutorial 05 does that with barriers that count bytes. Here is the same in TLE: a mesh names the CTAs, `tle.remote` turns a pointer
into shared memory into one of another CTA's, and after `tle.distributed_barrier` all numbers have arrived.

How the program is run and measured is harness.py's.

Next: 17_distributed_dot.py, where a mesh says how matrices are spread and the exchange follows from it.
"""

import numpy as np
import triton.language as tl

import mimw
import mimw.tle as tle

# Step 1. The mesh: one axis of 8 CTAs. An axis with "cluster" in its name makes the launch one of clusters, and its grid counts
# them: `softmax[(rows, )]` starts 8 * rows programs, and cluster number i takes row i.
MESH = tle.device_mesh({"cluster": 8})


@mimw.jit
def softmax(x_ptr, y_ptr, N, mesh: tl.constexpr, BLOCK: tl.constexpr):
    """One row a cluster. Each CTA holds BLOCK of its numbers in registers, from the load to the store."""
    SIZE: tl.constexpr = mesh.size
    rank = tle.shard_id(mesh, "cluster")
    row = (tl.program_id(0) // SIZE).to(tl.int64)
    columns = rank * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + columns, mask=columns < N, other=float("-inf")).to(tl.float32)

    # Step 2. What this part of the row has to say: its maximum, and the sum of exponentials about that maximum. The part of a
    # short row may be empty; then the maximum is -inf and exp(-inf - -inf) would be NaN, so the sum is taken about 0.
    top = tl.max(x)
    about = tl.where(top == float("-inf"), 0.0, top)
    total = tl.sum(tl.exp(x - about))

    # Step 3. Tell everybody. Each CTA has room for two numbers of each; `remote` gives the same room in CTA `cta`, and a store
    # through a pointer into it goes there. The own CTA is one of them and needs no case of its own.
    tops, totals = tle.gpu.alloc([SIZE], tl.float32), tle.gpu.alloc([SIZE], tl.float32)
    for cta in tl.static_range(SIZE):
        tl.store(tle.gpu.local_ptr(tle.remote(tops, cta, mesh), [rank]), about)
        tl.store(tle.gpu.local_ptr(tle.remote(totals, cta, mesh), [rank]), total)

    # Step 4. A store into another CTA orders nothing. The barrier does: what any of the eight stored before it is seen by all of
    # them after it. The compiler keeps each CTA at the kernel's end until no other may write to it.
    tle.distributed_barrier(mesh)

    # Step 5. Eight pairs become the row's, and every CTA scales its own part.
    tops_of_all, totals_of_all = tl.load(tle.gpu.local_ptr(tops)), tl.load(tle.gpu.local_ptr(totals))
    highest = tl.max(tops_of_all)
    scale = tl.sum(totals_of_all * tl.exp(tops_of_all - highest))
    tl.store(y_ptr + row * N + columns, (tl.exp(x - highest) / scale).to(y_ptr.dtype.element_ty), mask=columns < N)


def arguments(x, y, mesh=MESH, num_warps=16):
    """(grid, args, meta) of the launch that fills y; numpy arrays for the simulator, torch tensors on a GPU."""
    rows, n = x.shape
    block = 1 << max(0, (-(-n // mesh.size) - 1).bit_length())
    return (rows, ), (x, y, n), dict(mesh=mesh, BLOCK=block, num_warps=num_warps)


# Measured on an H200 (this program, bf16; a device copy reads and writes each byte once, as softmax does at best):
#
#     cluster softmax {'B': 2048, 'N': 131072}: 446.6 us 2404 GB/s; torch 559.9 us 1918 GB/s (ratio 1.254), copy 255.6 us
#       4202 GB/s (ratio 0.572); error 1.7e-03; NVIDIA H200, torch 2.11.0, 2026-11-21
#     cluster softmax {'B': 1024, 'N': 65536}: 113.0 us 2376 GB/s; torch 138.6 us 1936 GB/s (ratio 1.227), copy 67.2 us
#       3996 GB/s (ratio 0.594); error 1.7e-03; NVIDIA H200, torch 2.11.0, 2026-11-21
#     cluster softmax {'B': 16, 'N': 131072}: 11.3 us 743 GB/s; torch 35.4 us 237 GB/s (ratio 3.133), copy 5.8 us 1440
#       GB/s (ratio 0.516); error 1.7e-03; NVIDIA H200, torch 2.11.0, 2026-11-21

# What if?
#   - the barrier is left out: CTAs read rooms that others have not filled (`mimw check`: UnwrittenRead, or a DataRace);
#   - `mesh[0:4]` is the barrier's: four CTAs wait for each other and not for the rest;
#   - a CTA pulls (`tl.load` through `remote`) instead: correct with the same barrier, and the loads come one after the other.


def case():
    """A few rows on numpy arrays, and what should come out: `mimw check 16_cluster_reduction.py:case`."""
    x = np.random.default_rng(0).standard_normal((3, 500), np.float32).astype(np.float16)
    wide = np.exp(x.astype(np.float64))
    return mimw.Case(softmax, *arguments(x, np.zeros_like(x), num_warps=4), expected={"y_ptr": wide / wide.sum(1, keepdims=True)})


def measure_one(rows, n):
    """One line for the GPU."""
    import torch
    from measure import measured
    x = torch.randn(rows, n, device="cuda", dtype=torch.bfloat16)
    y, copied = torch.empty_like(x), torch.empty_like(x)
    grid, args, meta = arguments(x, y)
    print(measured("cluster softmax", dict(B=rows, N=n), {**meta, "mesh": "8 CTAs"}, lambda: softmax[grid](*args, **meta),
                   {"torch": lambda: torch.softmax(x, 1), "copy": lambda: copied.copy_(x)}, y, torch.softmax(x.float(), 1), flops=0,
                   allowed=4e-3, moved=2 * x.nbytes))


if __name__ == "__main__":
    import harness
    harness.run(case, measure_one, (2048, 131072), (1024, 65536), (16, 131072))
