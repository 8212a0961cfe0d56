"""Rings of slots between a task that loads tiles by TMA and a task that uses them.

Shapes: `stored` has x (16 steps, 32) in fp16, by blocks of (16, 32), and y the same; `summed` has a source (1, WIDTH) in fp32, and
in out a row of WIDTH for each program. Mistakes in `stored`: ARRIVE=False leaves out the release of a slot and the wait for it;
FORGOTTEN=n lets the reader pass over the last of n slots.
"""

import numpy as np
import triton.language as tl

import mimw
import mimw.tlx as tlx


@mimw.jit
def stored(x_desc, y_ptr, steps, STAGES: tl.constexpr = 1, ARRIVE: tl.constexpr = True, FORGOTTEN: tl.constexpr = -1):
    """y = x, tile by tile."""
    tiles = tlx.local_alloc((16, 32), tl.float16, STAGES)
    full, free = tlx.alloc_barriers(STAGES), tlx.alloc_barriers(STAGES)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            at = tl.arange(0, 16)[:, None] * 32 + tl.arange(0, 32)[None, :]
            for step in range(steps):
                slot, phase = tlx.warp_spec.get_bufidx_phase(step, STAGES)
                if step + 1 < steps or steps != FORGOTTEN:
                    tlx.barrier_wait(full[slot], phase)
                    tl.store(y_ptr + step * 512 + at, tlx.local_load(tiles[slot]))
                if ARRIVE:
                    tlx.barrier_arrive(free[slot])
        with tlx.async_task(num_warps=1):
            for step in range(steps):
                slot, phase = tlx.warp_spec.get_bufidx_phase(step, STAGES)
                if ARRIVE:
                    tlx.barrier_wait(free[slot], phase ^ 1)
                tlx.barrier_expect_bytes(full[slot], 1024)
                tlx.async_descriptor_load(x_desc, tiles[slot], [step * 16, 0], full[slot])


def never_released():
    """A launch whose slot is filled again whether it was read or not, for `mimw check tests/kernels/rings.py:never_released`."""
    x, y = np.zeros((64, 32), np.float16), np.zeros((64, 32), np.float16)
    return stored, (1, ), (mimw.TensorDescriptor.from_tensor(x, [16, 32]), y, 4), dict(ARRIVE=False)


@mimw.jit
def summed(source, out, trips, WIDTH: tl.constexpr, STAGES: tl.constexpr, MEET: tl.constexpr = False):
    """out = trips x source; where MEET, the readers' warps meet at a named barrier in each trip."""
    tiles = tlx.local_alloc((1, WIDTH), tl.float32, STAGES)
    full, free = tlx.alloc_barriers(STAGES), tlx.alloc_barriers(STAGES)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            total = tl.zeros((1, WIDTH), tl.float32)
            for i in range(trips):
                slot, phase = i % STAGES, i // STAGES & 1
                tlx.barrier_wait(full[slot], phase)
                total += tlx.local_load(tiles[slot])
                tlx.barrier_arrive(free[slot])
                if MEET:
                    tlx.named_barrier_wait(9, 128)
            tl.store(out + tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)[None, :], total)
        with tlx.async_task(num_warps=1):
            for i in range(trips):
                slot, phase = i % STAGES, i // STAGES & 1
                tlx.barrier_wait(free[slot], phase ^ 1)
                tlx.barrier_expect_bytes(full[slot], 4 * WIDTH)
                tlx.async_descriptor_load(source, tiles[slot], [0, 0], full[slot])
