"""Sums of rows that a debugger walks through: `load` brings rows by TMA, `add` adds them up, twice each.

Shapes: x of (rows, N), y of (N, ), fp32; 7 rows of 64 by `case`. At row `STOP` the task 'add' says `breakpoint()`. Mistakes to
plant: `early`, a slot is given back before it is read, a race; `parity`, the loader waits for the other parity, a deadlock.
"""

import numpy as np
import triton.language as tl

import mimw
from mimw import tle, tlx


@tle.struct
class Sums:
    """What has been added up: the rows, and how many."""

    total: tl.tensor
    count: tl.tensor


@mimw.jit
def doubled(tile, factor):
    scaled = tile * factor
    return scaled


@mimw.jit
def row_sums(x, y, rows, N: tl.constexpr, STOP: tl.constexpr, MISTAKE: tl.constexpr):
    ring = tlx.local_alloc((1, N), tl.float32, 2)
    full, free = tlx.alloc_barriers(2), tlx.alloc_barriers(2)
    with tlx.async_tasks():
        with tlx.async_task("default"):                 # add
            sums = Sums(tl.zeros((1, N), tl.float32), 0)
            for row in range(rows):
                slot, phase = row % 2, (row // 2) & 1
                tlx.barrier_wait(full[slot], phase)
                if row == STOP:
                    breakpoint()
                if MISTAKE == "early":
                    tlx.barrier_arrive(free[slot])
                tile = tlx.local_load(ring[slot])
                if MISTAKE != "early":
                    tlx.barrier_arrive(free[slot])
                sums = Sums(sums.total + doubled(tile, 2.0), sums.count + 1)
            tl.store(y + tl.arange(0, N)[None, :], sums.total * (sums.count // rows))
        with tlx.async_task(num_warps=1):               # load
            for row in range(rows):
                slot, phase = row % 2, (row // 2) & 1
                tlx.barrier_wait(free[slot], phase if MISTAKE == "parity" else phase ^ 1)
                tlx.barrier_expect_bytes(full[slot], 4 * N)
                tlx.async_descriptor_load(x, ring[slot], [row, 0], full[slot])


def launch(stop=3, mistake=""):
    """(kernel, grid, args, meta)."""
    x = np.arange(7 * 64, dtype=np.float32).reshape(7, 64)
    rows = mimw.TensorDescriptor.from_tensor(x, [1, 64])
    return row_sums, (1, ), (rows, np.zeros(64, np.float32), 7), dict(N=64, STOP=stop, MISTAKE=mistake)


def case():
    return launch()


def early():
    return launch(-1, "early")


def wrong():
    """One of whose results something else is expected."""
    kernel, grid, args, meta = launch()
    return mimw.Case(kernel, grid, args, meta, expected={"y": np.zeros(64, np.float32)})


def session(stop=3, mistake="", **how):
    """A session that debugs it."""
    kernel, grid, args, meta = launch(stop, mistake)
    return mimw.debug(kernel, grid, *args, **meta, **how)
