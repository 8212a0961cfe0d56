"""A ring whose slots a helper fills: sums of rows that come by TMA, with mistakes that a test plants.

Shapes: X (rows, 64) and Y (64, ), fp32; SLOTS places of a row. Input: a mistake by its name, of MISTAKES, which are what the text
says is left out. Output: what `mimw.check` takes; Y becomes the sum of all rows. For example:

    kernel, grid, args, meta = launch(rows=7, mistake="the reader's wait")      what `mimw.check` takes
"""

import numpy as np
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw import TensorDescriptor

BYTES = tl.constexpr(64 * 4)
MISTAKES = ("", "the announcement", "the filler's wait", "the reader's wait", "the release")


@mimw.jit
def fill(x, ring, row, SLOTS: tl.constexpr, MISTAKE: tl.constexpr):
    tiles, full, free = ring
    slot, phase = row % SLOTS, (row // SLOTS) & 1
    if MISTAKE != "the filler's wait":
        tlx.barrier_wait(free[slot], phase ^ 1)
    if MISTAKE != "the announcement":
        tlx.barrier_expect_bytes(full[slot], BYTES)
    tlx.async_descriptor_load(x, tiles[slot], [row, 0], full[slot])


@mimw.jit
def sums(x, y, rows, SLOTS: tl.constexpr, MISTAKE: tl.constexpr):
    tiles = tlx.local_alloc((1, 64), tl.float32, SLOTS)
    landed, given = tlx.alloc_barriers(SLOTS), tlx.alloc_barriers(SLOTS)
    ring = tiles, landed, given
    with tlx.async_tasks():
        with tlx.async_task("default"):
            total = tl.zeros((1, 64), tl.float32)
            for row in range(rows):
                slot, phase = row % SLOTS, (row // SLOTS) & 1
                if row == 0:
                    tlx.barrier_wait(landed[0], 0)
                if MISTAKE != "the reader's wait":
                    tlx.barrier_wait(landed[slot], phase)
                total += tlx.local_load(tiles[slot])
                if MISTAKE != "the release":
                    tlx.barrier_arrive(given[slot])
            tl.store(y + tl.arange(0, 64)[None, :], total)
        with tlx.async_task(num_warps=4):
            for row in range(rows):
                fill(x, ring, row, SLOTS, MISTAKE)


def launch(rows=7, slots=2, mistake=""):
    """(kernel, grid, args, meta)."""
    x, y = np.arange(rows * 64, dtype=np.float32).reshape(rows, 64), np.zeros(64, np.float32)
    return sums, (1, ), (TensorDescriptor.from_tensor(x, [1, 64]), y, rows), dict(SLOTS=slots, MISTAKE=mistake)
