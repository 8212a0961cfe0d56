"""A compiled kernel has handles where launches are simulated: the registers of its binary, and launches of its own."""

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.testing import gpu_available

pytestmark = pytest.mark.skipif(gpu_available(), reason="there is a GPU, which loads the kernel")


@mimw.jit
def scaled(x, y, n, BLOCK: tl.constexpr, FACTOR: tl.constexpr = 3):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, FACTOR * tl.load(x + at, mask=at < n), mask=at < n)


@mimw.jit
def scaled_in_tasks(x, y, n, BLOCK: tl.constexpr, FACTOR: tl.constexpr = 3):
    tile, full = tlx.local_alloc((BLOCK, ), tl.float32, 1), tlx.alloc_barriers(1)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
            tlx.barrier_wait(full[0], 0)
            tl.store(y + at, FACTOR * tlx.local_load(tile[0]), mask=at < n)
        with tlx.async_task(num_warps=4):
            at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
            tlx.local_store(tile[0], tl.load(x + at, mask=at < n))
            tlx.barrier_arrive(full[0])


@pytest.mark.parametrize("kernel", [scaled, scaled_in_tasks])
@pytest.mark.parametrize("target", ["sm_90a", "gfx942"])
def test_a_compiled_kernel_is_launched(kernel, target, monkeypatch):
    monkeypatch.setenv("MIMW_TARGET", target)
    x, y = np.arange(200, dtype=np.float32), np.zeros(200, np.float32)
    made = mimw.jit(kernel.fn).warmup(x, y, 200, BLOCK=128, FACTOR=5, num_warps=4, grid=(1, ))
    made._init_handles()
    found = mimw.compile(kernel, (2, ), x, y, 200, BLOCK=128, FACTOR=5, num_warps=4, target=target)
    assert (made.n_regs, made.metadata.shared) == (found.registers, found.shared_bytes) and made.n_spills == 0
    made[(2, 1, 1)](x, y, 200, 64, 7)       # the binary has its own BLOCK and FACTOR
    assert (y == 5 * x).all()


def test_hooks_of_a_launch_are_called():
    from triton import knobs

    x, y = np.ones(128, np.float32), np.zeros(128, np.float32)
    made, names = mimw.jit(scaled.fn).warmup(x, y, 128, BLOCK=128, grid=(1, )), []
    with knobs.runtime.scope():
        knobs.runtime.launch_enter_hook.add(lambda about: names.append(about.get()["name"]))
        made[(1, 1, 1)](x, y, 128, 128, 3)
    assert names == ["scaled"] and (y == 3).all()
