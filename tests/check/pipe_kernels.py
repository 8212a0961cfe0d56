"""Row sums by way of a pipe with two readers, and the two mistakes of docs/BUGS.md.

Run them by `mimw check tests/check/pipe_kernels.py:NAME`.
"""

import numpy as np
import triton
import triton.language as tl

import mimw
import mimw.tle as tle


@mimw.jit
def sums(x_desc, sums_ptr, largest_ptr, tiles, KEEP: tl.constexpr, EARLY: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """The sum and the largest element of each row, one tile of rows a chunk."""
    kv = tle.pipe(capacity=2, readers=("sum", "max"), rows=tle.gpu.alloc([2, ROWS, COLUMNS], tl.float32))
    tle.gpu.warp_specialize([(take_sums, (kv.reader("sum"), sums_ptr, tiles, EARLY, ROWS)),
                             (load, (kv.writer(), x_desc, tiles, ROWS, COLUMNS)),
                             (take_largest, (kv.reader("max"), largest_ptr, tiles, KEEP, ROWS))], [1, 4], [24, 24])


@triton.jit
def load(writer, x_desc, tiles, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    for k in range(tiles):
        slot = writer.acquire(k)
        tle.gpu.copy(x_desc, slot.rows, [ROWS, COLUMNS], [k * ROWS, 0])
        writer.commit(k)


@triton.jit
def take_sums(reader, sums_ptr, tiles, EARLY: tl.constexpr, ROWS: tl.constexpr):
    for k in range(tiles):
        slot = reader.wait(k).slot
        if EARLY:
            reader.release(k)
        rows = tl.load(tle.gpu.local_ptr(slot.rows))
        if not EARLY:
            reader.release(k)
        tl.store(sums_ptr + k * ROWS + tl.arange(0, ROWS), tl.sum(rows, 1))


@triton.jit
def take_largest(reader, largest_ptr, tiles, KEEP: tl.constexpr, ROWS: tl.constexpr):
    for k in range(tiles):
        largest = tl.max(tl.load(tle.gpu.local_ptr(reader.wait(k).slot.rows)), 1)
        tl.store(largest_ptr + k * ROWS + tl.arange(0, ROWS), largest)
        if not KEEP or k != 1:
            reader.release(k)


def arguments(**mistake):
    """(kernel, grid, args, meta) of six tiles; KEEP or EARLY is the mistake."""
    x = np.random.default_rng(0).standard_normal((6 * 16, 32)).astype(np.float32)
    args = mimw.TensorDescriptor.from_tensor(x, [16, 32]), np.zeros(96, np.float32), np.zeros(96, np.float32), 6
    return sums, (1, ), args, dict(KEEP=False, EARLY=False, ROWS=16, COLUMNS=32) | mistake


def right():
    return arguments()


def chunk_kept():
    return arguments(KEEP=True)


def released_before_it_was_read():
    return arguments(EARLY=True)
