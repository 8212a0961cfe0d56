"""`desc.load`, `desc.store` and `desc.atomic_*` as tiles in registers: inside tasks, loops and helpers."""

import numpy as np
import pytest
import triton
import triton.language as tl

import mimw
import mimw.tlx as tlx


@triton.jit
def bumped(desc, row, by):
    return desc.load([row, 0]) + by


@mimw.jit
def tiles(x_desc, y_desc, z_desc, steps, ROWS: tl.constexpr):
    with tlx.async_tasks():
        with tlx.async_task("default"):
            for step in range(steps):
                y_desc.store([step * ROWS, 0], bumped(x_desc, step * ROWS, 1))
        with tlx.async_task(num_warps=1):
            for step in range(steps):
                z_desc.atomic_add([step * ROWS, 0], bumped(x_desc, step * ROWS, 2))
        with tlx.async_task(num_warps=4):
            for step in range(steps):
                z_desc.atomic_add([step * ROWS, 0], bumped(x_desc, step * ROWS, 3))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_in_every_task(machine, dtype):
    x = np.arange(3 * 16 * 64).astype(dtype).reshape(48, 64) % 256
    y, z = np.zeros_like(x), np.ones_like(x)
    machine.launch(tiles, (1, ), *(mimw.TensorDescriptor.from_tensor(array, [16, 64]) for array in (x, y, z)), 3, 16)
    assert (y == x + 1).all()
    assert (z == 2 * x + 6).all()


@mimw.jit
def extremes(x_desc, y_desc, z_desc, row):
    with tlx.async_tasks():
        with tlx.async_task("default"):
            y_desc.atomic_max([row, 0], x_desc.load([row, 0]))
        with tlx.async_task(num_warps=1):
            z_desc.atomic_min([row, 0], x_desc.load([row, 0]))


def test_atomics_past_the_border(machine):
    x, y, z = (np.random.default_rng(seed).integers(-50, 50, (20, 32)).astype(np.int32) for seed in range(3))
    highest, lowest = y.copy(), z.copy()
    highest[8:], lowest[8:] = np.maximum(x, y)[8:], np.minimum(x, z)[8:]
    machine.launch(extremes, (1, ), *(mimw.TensorDescriptor.from_tensor(array, [16, 32]) for array in (x, y, z)), 8)
    assert (y == highest).all() and (z == lowest).all()
