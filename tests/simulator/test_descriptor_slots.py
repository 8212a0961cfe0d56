"""Wrong uses of descriptor slots."""

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.errors import OutOfBounds, SimulatorMisuse, UnwrittenRead


@mimw.jit
def through_slots(source, target, make_at, read_at, stride, ROWS: tl.constexpr, BARRIER: tl.constexpr):
    slots = tlx.allocate_tensor_descriptor(2)
    made = tlx.alloc_barriers(1)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tlx.make_tensor_descriptor(slots[make_at], source, [16, 64], [stride, 1], [16, 64])
            tlx.barrier_arrive(made[0])
        with tlx.async_task(num_warps=4):
            if BARRIER:
                tlx.barrier_wait(made[0], 0)
            desc = tlx.reinterpret_tensor_descriptor(slots[read_at], [ROWS, 64], tl.float16)
            at = tl.arange(0, ROWS)[:, None] * 64 + tl.arange(0, 64)[None, :]
            tl.store(target + at, desc.load([0, 0]))


def run(make_at=1, read_at=1, stride=64, rows=16, barrier=True, seed=0):
    x, y = np.arange(16 * 64, dtype=np.float16).reshape(16, 64), np.zeros((16, 64), np.float16)
    mimw.simulate(through_slots, (1, ), x, y, make_at, read_at, stride, rows, barrier, seed=seed)
    return x, y


def test_right():
    x, y = run()
    assert (x == y).all()


def test_another_slot_is_empty():
    with pytest.raises(UnwrittenRead, match="slot 0 of 'slots' is looked at before any descriptor was made in it"):
        run(read_at=0)


def test_no_barrier():
    """Some interleaving looks first."""
    found = 0
    for seed in range(20):
        try:
            run(barrier=False, seed=seed)
        except UnwrittenRead:
            found += 1
    assert found > 0


def test_another_block_shape():
    with pytest.raises(UnwrittenRead, match=r"slot 1 of 'slots' holds a descriptor of float16 blocks \(16, 64\), looked at as "
                       r"desc<fp16\[8, 64\]>"):
        run(rows=8)


def test_outside_the_array():
    with pytest.raises(OutOfBounds, match="index 2 of 'slots', which has 2"):
        run(make_at=2)


def test_a_stride_that_tma_does_not_take():
    with pytest.raises(SimulatorMisuse, match="dimension 0 is 63 elements x 2 bytes = 126 bytes, and strides are multiples of 16"):
        run(stride=63)
