"""14  The K largest of a row: a radix select that never sorts.

    python tutorials/14_radix_topk.py            on a GPU: check, and measure against torch.topk; elsewhere: simulate a small one

To find the 256 largest of 32768 numbers, none of them need be sorted. It is enough to know the 256th largest: larger ones go
out, and the rest is dropped. And that one can be found digit by digit, as a name in a dictionary: count how many numbers begin
with each digit, sum up the counts from above until 256 are reached, and you know its first digit. Two digits of 8 bits make a
fp16.

Counting in shared memory is tutorial 07. New here: `tle.cumsum`, atomics whose result is used, and a tile that stays in registers
from the first line to the last, so that each number is read once.

How the program is run and measured is harness.py's.

Next: the library's version, src/mimw/kernels/topk, which shares long rows among the CTAs of a cluster.
"""

import numpy as np
import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx


# Step 1. Digits of what? The bits of a float, read as a number, are in order already, but for the sign: negative ones run
# backwards, and come after the others. Turning all bits of a negative number and the sign of any other mends both.
@mimw.jit
def key_of(x):
    """fp16 to 16 bits that are ordered as the values are, in a word."""
    bits = x.to(tl.uint16, bitcast=True).to(tl.uint32)
    return tl.where(bits >= 0x8000, bits ^ 0xFFFF, bits ^ 0x8000)


@mimw.jit
def radix_topk(x_ptr, values_ptr, indices_ptr, N, K, layout: tl.constexpr, BLOCK: tl.constexpr, THREADS: tl.constexpr,
               EACH: tl.constexpr, COPIES: tl.constexpr):
    """values[row], indices[row] = the K largest of x[row, :N] in any order, and where they are. One program a row."""
    row, column = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    inside = column < N
    x = tl.load(x_ptr + row * N + column, mask=inside, other=0)
    # Step 2. Who holds what? A load gives each thread EACH neighbours, 16 bytes. Nothing below needs a number in another thread,
    # but the compiler may not know and deal them out anew, through shared memory. The pin says: as they came, so they stay.
    key = key_of(tlx.require_layout(x, layout))
    thread = column // EACH % THREADS

    # Step 3. Count, twice. In the second round only numbers count whose first digit is the one found. COPIES places a count, since
    # lanes that add to one place take turns, and random numbers share few first digits: the exponent is part of it.
    table = tle.gpu.alloc([256, COPIES], tl.int32)
    wanted, prefix, asked = K, tl.full((), 0, tl.uint32), inside
    for step in tl.static_range(2):
        digit = key >> 8 if step == 0 else key & 255
        if step == 1:
            asked = inside & (key >> 8 == prefix)
        tl.store(tle.gpu.local_ptr(table), tl.zeros((256, COPIES), tl.int32))
        tl.atomic_add(tle.gpu.local_ptr(table, (digit.to(tl.int32), thread % COPIES)), 1, mask=asked, sem="relaxed")
        # Step 4. `cumsum` gives for each digit how many numbers have a larger one. The digit sought is where that is less than what
        # is wanted, and with its own count it is not. Exactly one digit is, so a sum picks it.
        counts = tl.sum(tl.load(tle.gpu.local_ptr(table)), 1)
        above, _ = tle.cumsum(counts, reverse=True)
        sought = (above < wanted) & (above + counts >= wanted)
        prefix = prefix * 256 + tl.sum(tl.where(sought, tl.arange(0, 256), 0)).to(tl.uint32)
        wanted -= tl.sum(tl.where(sought, above, 0))

    # Step 5. `prefix` is the K-th largest key. All larger ones go out, and `wanted` of those that equal it. Places come from two
    # counters: an atomic returns the value before, a number that no other thread gets.
    larger, equal = inside & (key > prefix), inside & (key == prefix)
    counters = tle.gpu.alloc([2], tl.int32, init_value=tl.zeros((2, ), tl.int32))
    which = tl.where(larger, 0, 1)
    place = tl.atomic_add(tle.gpu.local_ptr(counters, (which, )), 1, mask=larger | equal, sem="relaxed")
    taken = larger | (equal & (place < wanted))
    out = row * K + tl.where(larger, 0, K - wanted) + place
    bits = tl.where(key >= 0x8000, key ^ 0x8000, key ^ 0xFFFF)
    tl.store(values_ptr + out, bits.to(tl.uint16).to(tl.float16, bitcast=True), mask=taken)
    tl.store(indices_ptr + out, column, mask=taken)


# Step 6. What if? Each of these is one edit, and `mimw.check` (or a plain `mimw.simulate`) names the line:
#
#     `mask=asked` is left out in step 3    wrong results     the second round counts numbers of other first digits
#     the zeros of step 3 are left out      UnwrittenRead     nobody has written the counts that the first round adds to
#     `& (place < wanted)` is left out      wrong results     ties overwrite the next row's results, or OutOfBounds in the last row


def arguments(x, values, indices, COPIES=4, num_warps=None):
    """(grid, args, meta) of the launch that fills values and indices; numpy arrays for the simulator, torch tensors on a GPU."""
    (m, n), k = x.shape, values.shape[1]
    block = max(32 * (num_warps or 1), 1 << (n - 1).bit_length())
    warps = num_warps or max(1, min(32, block // 256))
    threads = 32 * warps
    each = min(8, block // threads)
    layout = tlx.layout(((32, warps), (each, block // (threads * each))), ((each, 32 * each), (1, threads * each)))
    return (m, ), (x, values, indices, n, k), dict(layout=layout, BLOCK=block, THREADS=threads, EACH=each, COPIES=COPIES,
                                                   num_warps=warps)


# Measured on an H200 (this program, fp16, uniform in [0, 1), graphs of 20 calls):
#
#     64 x 128, K = 8: 2.7 us; torch.topk 9.9 us (ratio 3.72); NVIDIA H200, 2026-11-21
#     64 x 1024, K = 32: 3.6 us; torch.topk 16.1 us (ratio 4.52); NVIDIA H200, 2026-11-21
#     64 x 8192, K = 128: 7.7 us; torch.topk 42.3 us (ratio 5.49); NVIDIA H200, 2026-11-21
#     128 x 32768, K = 256: 85.5 us; torch.topk 85.9 us (ratio 1.00); NVIDIA H200, 2026-11-21
#
# What does the library do better? In step 5 all elements that are taken add to one counter, also a whole row of equal numbers.
# There, each thread counts its own first, and a cumsum over the threads' counts says where each begins.


def simulate_one():
    """A few rows on the simulator, with ties at the border."""
    x = np.random.default_rng(0).integers(-40, 40, (3, 1000)).astype(np.float16)
    values, indices = np.zeros((3, 64), np.float16), np.zeros((3, 64), np.int32)
    grid, args, meta = arguments(x, values, indices)
    mimw.simulate(radix_topk, grid, *args, **meta)
    print("simulated; values as numpy's:", (np.sort(values) == np.sort(x)[:, -64:]).all(),
          "and where the indices say:", (np.take_along_axis(x, indices, 1) == values).all())


def measure_one(m: int, n: int, k: int) -> None:
    """One line for the GPU: exact against torch.topk, then timed in turn with it."""
    import torch

    from mimw.testing.benchmark import alternate
    x = torch.rand(m, n, device="cuda", dtype=torch.float16)
    values, indices = torch.zeros(m, k, dtype=x.dtype, device="cuda"), torch.zeros(m, k, dtype=torch.int32, device="cuda")
    grid, args, meta = arguments(x, values, indices)
    runs = {"mimw": lambda: radix_topk[grid](*args, **meta), "torch": lambda: torch.topk(x, k)}
    graphs = {}
    for name, run in runs.items():
        run()
        torch.cuda.synchronize()
        graphs[name] = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graphs[name]):
            for _ in range(20):
                run()
    assert values.sort(descending=True).values.equal(torch.topk(x, k).values) and x.gather(1, indices.long()).equal(values)
    times = {name: time / 20 for name, time in alternate({name: graph.replay for name, graph in graphs.items()}).items()}
    print(f"{m} x {n}, K = {k}: {times['mimw']:.1f} us; torch.topk {times['torch']:.1f} us "
          f"(ratio {times['torch'] / times['mimw']:.2f}); {torch.cuda.get_device_name()}")


if __name__ == "__main__":
    import harness
    harness.run(simulate_one, measure_one, (64, 128, 8), (64, 1024, 32), (64, 8192, 128), (128, 32768, 256))
