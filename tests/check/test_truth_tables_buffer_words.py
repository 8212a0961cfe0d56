"""Copies past the registers on AMD's chips, by pointers and by a base with offsets: when is a program right?

What a wave's waits count (vmcnt) is for the compiler; for the author a task's groups land in order, its wait makes them visible to
its own reads, and another task sees them after that wait and a barrier. So does a refill: after a barrier behind the last read.
"""

import itertools

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from tests.kernels.lines import lines_with

from .tables import found, lines_of, right, rows, states

CHIP = "gfx950"


@mimw.jit
def copy(x, at, tile, n, BASE: tl.constexpr):
    if BASE:
        tlx.buffer_load_to_local(tile, x, at, mask=at < n)
    else:
        tlx.async_load(x + at, tile, mask=at < n)
    tlx.async_load_commit_group()


@mimw.jit
def reading_ahead(x, y, n, BASE: tl.constexpr, STAGES: tl.constexpr, AHEAD: tl.constexpr, PENDING: tl.constexpr):
    """Five tiles of which the last is cut off, AHEAD groups ahead, through STAGES buffers."""
    tiles = tlx.local_alloc((128, ), tl.float32, STAGES)
    at = tl.arange(0, 128)
    for step in tl.static_range(5 + AHEAD):
        if step < 5:
            copy(x, step * 128 + at, tiles[step % STAGES], n, BASE)
        if step >= AHEAD:
            tlx.async_load_wait_group(PENDING if step < 5 else 0)
            tlx.buffer_store(tlx.local_load(tiles[(step - AHEAD) % STAGES]), y, (step - AHEAD) * 128 + at)


@states("buffer_load_to_local", "async_commit", "async_wait")
def past_registers(stages=3, ahead=2, pending=2, base=True):
    x, y = np.ones(640, np.float32), np.zeros(640, np.float32)
    return reading_ahead, 1, (x, y, 600, base, stages, ahead, pending), {"target": CHIP}


@pytest.mark.parametrize("base", [True, False])
@pytest.mark.parametrize("stages, ahead, pending", list(itertools.product((2, 3), (1, 2), (0, 1, 2, 3))))
def test_groups_that_may_be_unfinished(stages, ahead, pending, base):
    """Right iff no more groups may be unfinished than the loop is ahead, and it is ahead by less than there are buffers."""
    assert right(past_registers(stages, ahead, pending, base)) == (pending <= ahead < stages)


@pytest.mark.parametrize("base, issued", [(True, "buffer_load_to_local("), (False, "async_load(x + at")])
def test_a_wait_for_one_group_too_few_is_named(base, issued):
    finding = found(past_registers(3, 1, 2, base), "CopyReadEarly")
    assert lines_of(finding) & lines_with(copy, issued) and lines_of(finding) & lines_with(reading_ahead, "local_load(tiles")


@mimw.jit
def handing_over(x, y, BASE: tl.constexpr, WAIT: tl.constexpr, ARRIVE: tl.constexpr, WAIT_FULL: tl.constexpr, FREE: tl.constexpr,
                 WAIT_FREE: tl.constexpr):
    """Three tiles through one slot, copied by one task and read by another."""
    tile, full, free = tlx.local_alloc((128, ), tl.float32, 1), tlx.alloc_barriers(1), tlx.alloc_barriers(1)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            for step in range(3):
                if WAIT_FULL:
                    tlx.barrier_wait(full[0], step & 1)
                tl.store(y + step * 128 + tl.arange(0, 128), tlx.local_load(tile[0]))
                if FREE:
                    tlx.barrier_arrive(free[0])
        with tlx.async_task(num_warps=4):
            for step in range(3):
                if WAIT_FREE:
                    tlx.barrier_wait(free[0], step & 1 ^ 1)
                copy(x, step * 128 + tl.arange(0, 128), tile[0], 384, BASE)
                if WAIT:
                    tlx.async_load_wait_group(0)
                if ARRIVE:
                    tlx.barrier_arrive(full[0])


def handed_over(base=True, chip=CHIP, **switches):
    on = dict(wait=True, arrive=True, wait_full=True, free=True, wait_free=True) | switches
    return handing_over, 1, (np.ones(384, np.float32), np.zeros(384, np.float32), base, *on.values()), {"target": chip}


@pytest.mark.parametrize("chip, base", [(CHIP, True), (CHIP, False), ("gfx942", True), ("gfx1250", False)])
@rows("wait", "full", "free")
def test_both_sides_of_a_refill(wait, full, free, chip, base):
    """Right iff the copier waits for its copies, the reader for the copier, and a refill for the reader."""
    launch = handed_over(base, chip, wait=wait, arrive=full, wait_full=full, free=free, wait_free=free)
    assert right(launch) == (wait and full and free)
