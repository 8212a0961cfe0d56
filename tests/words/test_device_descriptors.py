"""Descriptors made in the kernel: with memory of their own, in slots, remade per group, read by other tasks."""

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx


@pytest.fixture(autouse=True)
def allocator(machine):
    """Descriptors made on the device live in memory that the launch takes from Triton's allocator."""
    if machine.name == "gpu":
        import torch
        import triton
        triton.set_allocator(lambda size, alignment, stream: torch.empty(size, device="cuda", dtype=torch.int8))


@mimw.jit
def groups(sources, target, rows, groups_, ROWS: tl.constexpr, COLS: tl.constexpr, SLOTS: tl.constexpr):
    """A producer makes one descriptor a group in a ring of slots; a copier and the default task read it there."""
    slots = tlx.allocate_tensor_descriptor(SLOTS)
    tiles = tlx.local_alloc((ROWS, COLS), tl.float16, SLOTS)
    made = tlx.alloc_barriers(SLOTS)
    full = tlx.alloc_barriers(SLOTS)
    free = tlx.alloc_barriers(SLOTS)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            at_row = tl.arange(0, ROWS)[:, None]
            at = at_row * COLS + tl.arange(0, COLS)[None, :]
            for group in range(groups_):
                slot, phase = tlx.warp_spec.get_bufidx_phase(group, SLOTS)
                tlx.barrier_wait(full[slot], phase)
                desc = tlx.reinterpret_tensor_descriptor(slots[slot], [ROWS, COLS], tl.float16)
                again = desc.load([0, 0])
                tl.store(target + group * ROWS * COLS + at, tlx.local_load(tiles[slot]) + again)
                tlx.barrier_arrive(free[slot])
        with tlx.async_task(num_warps=2):  # maker
            for group in range(groups_):
                slot, phase = tlx.warp_spec.get_bufidx_phase(group, SLOTS)
                tlx.barrier_wait(free[slot], phase ^ 1)
                tlx.make_tensor_descriptor(slots[slot], sources + group * rows * COLS, [rows - group, COLS], [COLS, 1],
                                           [ROWS, COLS])
                tlx.barrier_arrive(made[slot])
        with tlx.async_task(num_warps=1):  # copier
            for group in range(groups_):
                slot, phase = tlx.warp_spec.get_bufidx_phase(group, SLOTS)
                tlx.barrier_wait(made[slot], phase)
                desc = tlx.reinterpret_tensor_descriptor(slots[slot], [ROWS, COLS], tl.float16)
                tlx.barrier_expect_bytes(full[slot], ROWS * COLS * 2)
                tlx.async_descriptor_load(desc, tiles[slot], [0, 0], full[slot])


@pytest.mark.parametrize("slots", [1, 2])
def test_a_descriptor_per_group(machine, slots):
    """Group g has 16 - g rows; the others read as zero."""
    x = np.arange(5 * 16 * 64, dtype=np.float16).reshape(5, 16, 64) % 512
    y = np.full_like(x, -1)
    machine.launch(groups, (1, ), x, y, 16, 5, 16, 64, slots)
    wanted = np.stack([np.where(np.arange(16)[:, None] < 16 - group, 2 * x[group], 0) for group in range(5)])
    assert (y == wanted).all()


@mimw.jit
def round_trip(source, target, extents: tl.constexpr, strides: tl.constexpr, block: tl.constexpr, padding: tl.constexpr,
               SLOT: tl.constexpr):
    """Through two descriptors that a task makes for itself: one load, one store of the same block."""
    slots = tlx.allocate_tensor_descriptor(1)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            pass
        with tlx.async_task(num_warps=4):
            first = tlx.make_tensor_descriptor(slots if SLOT else None, source, extents, strides, block, padding)
            zeros: tl.constexpr = [0] * len(block)
            value = first.load(zeros)
            last = tl.make_tensor_descriptor(target, extents, strides, block)
            last.store(zeros, value)


@mimw.jit
def padded(source, target, rows, cols, ROWS: tl.constexpr, COLS: tl.constexpr, PADDING: tl.constexpr, SLOT: tl.constexpr):
    """The whole block, out of bounds elements included, to a dense target."""
    slots = tlx.allocate_tensor_descriptor(1)
    desc = tlx.make_tensor_descriptor(slots if SLOT else None, source, [rows, cols], [cols, 1], [ROWS, COLS],
                                      padding_option=PADDING)
    at = tl.arange(0, ROWS)[:, None] * COLS + tl.arange(0, COLS)[None, :]
    tl.store(target + at, desc.load([rows - 8, cols - 16]))


@pytest.mark.parametrize("slot", [True, False])
@pytest.mark.parametrize("padding", ["zero", "nan"])
def test_padding(machine, padding, slot):
    x = np.arange(1, 1 + 24 * 48, dtype=np.float32).reshape(24, 48)
    y = np.full((32, 32), 7, np.float32)
    machine.launch(padded, (1, ), x, y, 24, 48, 32, 32, padding, slot)
    wanted = np.full_like(y, np.nan if padding == "nan" else 0)
    wanted[:8, :16] = x[16:, 32:]
    np.testing.assert_array_equal(y, wanted)


BLOCKS = {1: (64, ), 2: (16, 64), 3: (4, 8, 64), 4: (2, 4, 8, 32), 5: (2, 2, 4, 8, 32)}


@pytest.mark.parametrize("slot", [True, False])
@pytest.mark.parametrize("rank", BLOCKS)
def test_ranks(machine, rank, slot):
    block = BLOCKS[rank]
    x = np.random.default_rng(rank).integers(-100, 100, block).astype(np.float16)
    strides = tuple(step // 2 for step in x.strides)
    y = np.zeros_like(x)
    machine.launch(round_trip, (1, ), x, y, block, strides, block, "zero", slot)
    assert (x == y).all()
