"""Bulk copies: consecutive bytes in by a barrier, out by a group."""

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from tests.compiling import to_assembly


@mimw.jit
def through(x_ptr, y_ptr, length, SIZE: tl.constexpr, BLOCK_OF_POINTERS: tl.constexpr):
    line = tlx.local_alloc((SIZE, ), tlx.dtype_of(x_ptr), 1)
    full = tlx.alloc_barriers(1)
    element: tl.constexpr = tlx.size_of(tlx.dtype_of(x_ptr))
    base = tl.program_id(0) * SIZE
    tlx.local_store(line[0], tl.zeros([SIZE], tlx.dtype_of(x_ptr)))
    tlx.fence("async_shared")
    if BLOCK_OF_POINTERS:
        tlx.barrier_expect_bytes(full[0], SIZE * element)
        tlx.async_load(x_ptr + base + tl.arange(0, SIZE), line[0], bulk=True, barrier=full[0])
    else:
        tlx.barrier_expect_bytes(full[0], SIZE * element // 2)
        tlx.async_load(x_ptr + base, line[0], bulk=True, bulk_size=length // 2 * element, barrier=full[0])
    tlx.barrier_wait(full[0], 0)
    tlx.local_store(line[0], tlx.local_load(line[0]) + 1)
    tlx.fence("async_shared")
    tlx.async_store(y_ptr + base, line[0], length * element)
    tlx.async_descriptor_store_wait(0)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8])
@pytest.mark.parametrize("block", [True, False])
def test_in_and_out(machine, dtype, block):
    x = (np.arange(3 * 256) % 100).astype(dtype).reshape(3, 256)
    y = np.zeros_like(x)
    machine.launch(through, (3, ), x, y, 256, 256, block)
    copied = x if block else np.where(np.arange(256) < 128, x, 0)
    assert (y == copied + 1).all()


@mimw.jit
def hinted(x_ptr, y_ptr, IN: tl.constexpr, OUT: tl.constexpr):
    line, full = tlx.local_alloc((64, ), tl.float32, 1), tlx.alloc_barriers(1)
    tlx.barrier_expect_bytes(full[0], 256)
    tlx.async_load(x_ptr, line[0], bulk=True, barrier=full[0], eviction_policy=IN)
    tlx.barrier_wait(full[0], 0)
    tlx.async_store(y_ptr, line[0], 256, eviction_policy=OUT)
    tlx.async_descriptor_store_wait(0)


def test_how_long_l2_keeps_the_lines(machine):
    x = np.arange(64, dtype=np.float32)
    y = np.zeros_like(x)
    machine.launch(hinted, (1, ), x, y, "evict_first", "evict_last")
    assert (y == x).all()


@pytest.mark.parametrize("into, out", [("evict_first", "evict_last"), ("", "")])
def test_policies_in_ptx(into, out):
    ptx = to_assembly(hinted, {"x_ptr": "*fp32", "y_ptr": "*fp32"}, {"IN": into, "OUT": out}, target="sm_90a").stage("ptx")
    assert ("complete_tx::bytes.L2::cache_hint" in ptx, "bulk_group.L2::cache_hint" in ptx) == (bool(into), bool(out))
    assert [f"createpolicy.fractional.L2::{one}.b64" in ptx for one in ("evict_first", "evict_last")] == [bool(into), bool(out)]


@pytest.mark.parametrize("policies, name", [(("soon", ""), "async_load"), (("", "soon"), "async_store")])
def test_unknown_policies(policies, name):
    with pytest.raises(Exception, match=f"{name}: eviction_policy must be one of"):
        mimw.simulate(hinted, (1, ), np.zeros(64, np.float32), np.zeros(64, np.float32), *policies)


@mimw.jit
def ring(x_ptr, y_ptr, steps, SIZE: tl.constexpr, STAGES: tl.constexpr):
    lines = tlx.local_alloc((SIZE, ), tl.float32, STAGES)
    full = tlx.alloc_barriers(STAGES)
    free = tlx.alloc_barriers(STAGES)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            for step in range(steps):
                slot, phase = tlx.warp_spec.get_bufidx_phase(step, STAGES)
                tlx.barrier_wait(full[slot], phase)
                tlx.async_store(y_ptr + step * SIZE, lines[slot], SIZE * 4)
                tlx.async_descriptor_store_wait(0)
                tlx.barrier_arrive(free[slot])
        with tlx.async_task(num_warps=1):
            for step in range(steps):
                slot, phase = tlx.warp_spec.get_bufidx_phase(step, STAGES)
                tlx.barrier_wait(free[slot], phase ^ 1)
                tlx.barrier_expect_bytes(full[slot], SIZE * 4)
                tlx.async_load(x_ptr + step * SIZE, lines[slot], bulk=True, barrier=full[slot])


def test_between_tasks(machine):
    x = np.arange(5 * 128, dtype=np.float32)
    y = np.zeros_like(x)
    machine.launch(ring, (1, ), x, y, 5, 128, 2)
    assert (y == x).all()
