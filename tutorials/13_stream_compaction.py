"""13  Stream compaction in TLE: keep the elements that pass a test, in order, when their number is not known.

    python tutorials/13_stream_compaction.py        on a GPU: check, measure against torch.masked_select; elsewhere: simulate

Where an element goes depends on how many elements before it are kept. `tle.cumsum` gives just that, and the sum of all:

    before, total = tle.cumsum(keep)

Within a program this is one exchange between its warps. Between programs the same question is asked once more, of their
totals: count, add up the counts, then write. The input is read twice and the output written once, in three launches.

How the program is run and measured is harness.py's.
"""

import numpy as np
import triton
import triton.language as tl

import mimw
import mimw.tle as tle


# Step 1. Each program counts what it keeps of its block.
@mimw.jit
def count(x_ptr, counts_ptr, n, threshold, BLOCK: tl.constexpr):
    """counts[p] = how many elements of block p are above the threshold."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=threshold)
    tl.store(counts_ptr + tl.program_id(0), tl.sum((x > threshold).to(tl.int32), 0))


# Step 2. One program adds the counts up, a piece at a time: `before` says where in the output each block begins, the total is
# carried on. Any number of blocks will do.
@mimw.jit
def add_up(counts_ptr, starts_ptr, blocks, BLOCK: tl.constexpr):
    """starts[p] = sum of counts[q] for q < p; starts[blocks] = the sum of all."""
    base = tl.zeros((), tl.int64)
    for first in range(0, blocks, BLOCK):
        at = first + tl.arange(0, BLOCK)
        before, total = tle.cumsum(tl.load(counts_ptr + at, mask=at < blocks, other=0), dtype=tl.int64)
        tl.store(starts_ptr + at, base + before, mask=at < blocks)
        base += total
    tl.store(starts_ptr + blocks, base)


# Step 3. Each program writes what it keeps from its start on. A mask of booleans counts as ones and zeros. The stores of a
# warp are masked, but those that are made lie next to each other.
@mimw.jit
def write(x_ptr, starts_ptr, y_ptr, n, threshold, BLOCK: tl.constexpr):
    """y[starts[p] + ...] = the elements of block p above the threshold, in their order."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=threshold)
    keep = x > threshold
    before, _ = tle.cumsum(keep)
    tl.store(y_ptr + tl.load(starts_ptr + tl.program_id(0)) + before, x, mask=keep)


def compact(launch, x, y, counts, starts, threshold, n, BLOCK=2048):
    """The three launches; `launch(kernel, grid, *args, **meta)` is a machine, of numpy arrays or torch tensors.

    `counts` has a place for each block of x, `starts` one more; starts[-1] is then the number of elements in `y`.
    """
    blocks = triton.cdiv(n, BLOCK)
    launch(count, (blocks, ), x, counts, n, threshold, BLOCK, num_warps=4)
    launch(add_up, (1, ), counts, starts, blocks, 2048, num_warps=8)
    launch(write, (blocks, ), x, starts, y, n, threshold, BLOCK, num_warps=4)


# Measured on an H200 (this program, 2^26 elements, fp32, half of them kept):
#
#     stream compaction {'n': 67108864}: 225.7 us; torch.masked_select 541.3 us (ratio 2.398); error 0.0e+00; NVIDIA H200,
#       torch 2.11.0, 2026-11-21


def simulate_one():
    """A few blocks on the simulator, the last of them not full."""
    x = np.random.default_rng(0).standard_normal(5000).astype(np.float32)
    y, counts, starts = np.zeros_like(x), np.zeros(5, np.int32), np.zeros(6, np.int64)
    compact(mimw.simulate, x, y, counts, starts, 0.0, x.size, BLOCK=1024)
    print("checked:", mimw.check(write, (5, ), x, starts, np.zeros_like(x), x.size, 0.0, 1024, seeds=2))
    print("simulated; equal to numpy:", bool((y[:starts[-1]] == x[x > 0]).all()))


def measure_one(n):
    """One line for the GPU."""
    import torch
    from measure import measured
    x = torch.randn(n, device="cuda")
    expected = torch.masked_select(x, x > 0)
    blocks = triton.cdiv(n, 2048)
    y = torch.empty_like(x)
    counts, starts = (torch.empty(blocks + 1, device="cuda", dtype=kind) for kind in (torch.int32, torch.int64))

    def launch(kernel, grid, *args, **meta):
        kernel[grid](*args, **meta)

    print(measured("stream compaction", dict(n=n), dict(BLOCK=2048), lambda: compact(launch, x, y, counts, starts, 0.0, n),
                   {"torch.masked_select": lambda: torch.masked_select(x, x > 0)}, y[:expected.numel()], expected, flops=n,
                   allowed=1e-12))


if __name__ == "__main__":
    import harness
    harness.run(simulate_one, measure_one, (1 << 26, ))
