"""One producer, one consumer, a ring between them: the smallest warp-specialised kernel."""

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx


@mimw.jit
def double(x_desc, y_ptr, steps, ROWS: tl.constexpr, COLS: tl.constexpr, STAGES: tl.constexpr):
    tiles = tlx.local_alloc((ROWS, COLS), tlx.dtype_of(x_desc), STAGES)
    full = tlx.alloc_barriers(STAGES)
    free = tlx.alloc_barriers(STAGES)
    with tlx.async_tasks():
        with tlx.async_task("default"):  # consumer
            rows = tl.arange(0, ROWS)[:, None]
            cols = tl.arange(0, COLS)[None, :]
            for step in range(steps):
                slot, phase = tlx.warp_spec.get_bufidx_phase(step, STAGES)
                tlx.barrier_wait(full[slot], phase)
                tile = tlx.local_load(tiles[slot])
                tlx.barrier_arrive(free[slot])
                tl.store(y_ptr + (step * ROWS + rows) * COLS + cols, tile * 2)
        with tlx.async_task(num_warps=1, num_regs=24):  # producer
            for step in range(steps):
                slot, phase = tlx.warp_spec.get_bufidx_phase(step, STAGES)
                tlx.barrier_wait(free[slot], phase ^ 1)
                tlx.barrier_expect_bytes(full[slot], ROWS * COLS * tlx.size_of(tlx.dtype_of(x_desc)))
                tlx.async_descriptor_load(x_desc, tiles[slot], [step * ROWS, 0], full[slot])


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32])
@pytest.mark.parametrize("stages", [1, 3])
def test_ring(machine, dtype, stages):
    x = np.arange(7 * 32 * 64, dtype=dtype).reshape(7 * 32, 64) % 1000
    y = np.zeros_like(x)
    machine.launch(double, (1, ), mimw.TensorDescriptor.from_tensor(x, [32, 64]), y, 7, 32, 64, stages)
    assert (y == x * 2).all()
