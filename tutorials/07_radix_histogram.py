"""07  A radix histogram: pointers into shared memory, and atomics through them.

    python tutorials/07_radix_histogram.py       on a GPU: check, and measure against torch; elsewhere: simulate a small one

Radix sorts and radix selects begin by counting digits: of every key one digit of 8 bits, of every digit value how often it comes.
Counting is nothing but `counts[digit] += 1`, many million times and by everybody at once. In global memory that is slow, since all
fight for 256 integers. In shared memory an addition takes a cycle or two, if neighbours are in different banks.

TLX has buffers in shared memory, and moves whole tiles in and out of them. Here we need a pointer to one element, which
`tl.atomic_add` takes. TLE has that function, `tle.gpu.local_ptr`, and it works on TLX buffers too: both record the same program.

How the program is run and measured is harness.py's.
"""

import numpy as np
import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx


@mimw.jit
def histogram(keys, counts, n, shift, BITS: tl.constexpr, COPIES: tl.constexpr, EACH: tl.constexpr, BLOCK: tl.constexpr):
    """counts[d] += how many of the n keys have the digit d, bits shift to shift + BITS - 1."""
    BINS: tl.constexpr = 1 << BITS
    # Step 1. A table in shared memory, a row a digit. Shared memory has 32 banks of 4 bytes, and 32 lanes of a warp that add in 32
    # banks are done in one go. With 32 copies of each count, one a lane, lane i always adds in bank i, whatever the digits are.
    table = tlx.local_alloc((BINS, COPIES), tl.int32, 1)
    tlx.local_store(table[0], tl.zeros((BINS, COPIES), tl.int32))

    # Step 2. Which copy is ours? A thread loads EACH neighbouring keys at once (16 bytes), so it is `element // EACH` that counts
    # lanes. Should the compiler deal the keys out in another way, the sums are the same, only slower.
    element = tl.arange(0, BLOCK)
    copy = element // EACH % COPIES
    for start in range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK):
        at = start + element
        digit = (tl.load(keys + at, mask=at < n, other=0) >> shift) & (BINS - 1)
        # Step 3. `local_ptr` takes an index for each dimension and gives a tile of pointers; from here on it is plain Triton. Two
        # lanes may hold the same pointer: atomics count both. You write no barrier. The compiler sees that step 1 stored
        # here before, and step 4 loads after, and puts one between.
        tl.atomic_add(tle.gpu.local_ptr(table[0], (digit, copy)), 1, mask=at < n)

    # Step 4. The copies come together in registers, and the program's sums go to global memory: 256 additions a program.
    bins = tl.arange(0, BINS)
    tl.atomic_add(counts + bins, tl.sum(tlx.local_load(table[0]), axis=1), sem="relaxed")


# Step 5. What if? Each of these is one edit, and `mimw.check` (or a plain `mimw.simulate`) names the line:
#
#     the zeros of step 1 are left out      UnwrittenRead         nobody has written the counts that step 3 adds to
#     `& (BINS - 1)` is left out            OutOfBounds           a digit beyond the table; on the GPU somebody else's memory
#     `tl.store` in place of `atomic_add`   nothing, wrong sums   stores of one task to one element: the last one stays


def arguments(keys, counts, shift, BITS=8, COPIES=32, EACH=4, BLOCK=8192, programs=1056, num_warps=8):
    """(grid, args, meta) of the launch that adds the digits' counts to `counts`."""
    n = keys.shape[0]
    grid = (min(programs, -(-n // BLOCK)), )
    return grid, (keys, counts, n, shift), dict(BITS=BITS, COPIES=COPIES, EACH=EACH, BLOCK=BLOCK, num_warps=num_warps)


# Measured on an H200 (this program, 2^26 random keys, digit of bits 8 to 15):
#
#     random digits, 67108864 keys, COPIES=1: 87 us, 3.07 TB/s; torch.bincount of given digits 562 us (ratio 6.43),
#       torch.histc of given digits 298 us (ratio 3.41); NVIDIA H200, 2026-11-21
#     random digits, 67108864 keys, COPIES=32: 89 us, 3.01 TB/s; torch.bincount of given digits 562 us (ratio 6.30),
#       torch.histc of given digits 298 us (ratio 3.34); NVIDIA H200, 2026-11-21
#     one digit, 67108864 keys, COPIES=1: 84 us, 3.20 TB/s; torch.bincount of given digits 7989 us (ratio 95.11),
#       torch.histc of given digits 5786 us (ratio 68.88); NVIDIA H200, 2026-11-21
#
# Where does the copy index earn its keep? With COPIES=1 all keys that have one digit go to one counter. Random digits are spread
# over all banks then, and few collide. Keys as they come in life are not random: the top digit of small numbers is always 0, and
# 32 lanes that add to one counter take turns.


def case():
    """A small one on numpy arrays, and what should come out: `mimw check 07_radix_histogram.py:case`."""
    keys, counts = np.random.default_rng(0).integers(0, 1 << 31, 5000).astype(np.int32), np.zeros(256, np.int32)
    return mimw.Case(histogram, *arguments(keys, counts, 8, BLOCK=1024, programs=3),
                     expected={"counts": np.bincount(keys >> 8 & 255, minlength=256)})


def measured(name: str, keys, shift: int, path: str | None = None, **choices) -> str:
    """One line for the GPU: exact against torch.bincount, then timed in turn with it and with torch.histc."""
    from pathlib import Path

    import torch

    from mimw.testing.benchmark import Row, alternate
    counts, digits = torch.zeros(256, dtype=torch.int32, device="cuda"), keys >> shift & 255
    grid, args, meta = arguments(keys, counts, shift, **choices)

    def run():
        counts.zero_()
        histogram[grid](*args, **meta)

    run()
    expected = torch.bincount(digits, minlength=256)
    assert (counts == expected).all(), "the counts are wrong"
    floats = digits.float()
    baselines = {"torch.bincount of given digits": lambda: torch.bincount(digits, minlength=256),
                 "torch.histc of given digits": lambda: torch.histc(floats, 256, 0, 255)}
    times = alternate({"mimw": run, **baselines})
    row = Row(f"radix histogram, {name}", dict(n=keys.numel()), meta, times.pop("mimw"), times, 0.0, name,
              torch.cuda.get_device_name())
    if path:
        row.write(Path(path))
    others = ", ".join(f"{other} {time:.0f} us (ratio {row.ratios()[other]:.2f})" for other, time in row.baselines.items())
    speed = keys.numel() * keys.element_size() / row.microseconds / 1e6
    return (f"{name}, {keys.numel()} keys, COPIES={meta['COPIES']}: {row.microseconds:.0f} us, {speed:.2f} TB/s; {others}; "
            f"{row.chip}")


def measure_one(size, path=None):
    """Four lines for the GPU; with a path, rows there, too."""
    import torch
    random = torch.randint(0, 1 << 31, (size, ), dtype=torch.int32, device="cuda")
    small = torch.randint(0, 1 << 8, (size, ), dtype=torch.int32, device="cuda")
    for name, keys in (("random digits", random), ("one digit", small)):
        for copies in (1, 32):
            print(measured(name, keys, 8, path, COPIES=copies))


if __name__ == "__main__":
    import harness
    harness.run(case, measure_one, (1 << 26, ))
