"""Rings of buffers that are smaller than what TMA wants of an address in shared memory."""

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx
from mimw.errors import KernelError
from mimw.runtime.compile_kernel import compile_kernel
from tests.compiling import to_ttgir


@mimw.jit
def ring(source, target, steps, SIZE: tl.constexpr, STAGES: tl.constexpr):
    tiles = tlx.local_alloc((SIZE, ), tlx.dtype_of(source), STAGES)
    full, free = tlx.alloc_barriers(STAGES), tlx.alloc_barriers(STAGES)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            for step in range(steps):
                slot, phase = tlx.warp_spec.get_bufidx_phase(step, STAGES)
                tlx.barrier_wait(full[slot], phase)
                tlx.async_descriptor_store(target, tiles[slot], [step * SIZE])
                tlx.async_descriptor_store_wait(0)
                tlx.barrier_arrive(free[slot])
        with tlx.async_task(num_warps=1):
            for step in range(steps):
                slot, phase = tlx.warp_spec.get_bufidx_phase(step, STAGES)
                tlx.barrier_wait(free[slot], phase ^ 1)
                tlx.barrier_expect_bytes(full[slot], SIZE * tlx.size_of(tlx.dtype_of(source)))
                tlx.async_descriptor_load(source, tiles[slot], [step * SIZE], full[slot])


@pytest.mark.parametrize("size", [16, 32, 64, 128])
@pytest.mark.parametrize("dtype", [np.int8, np.float16])
def test_small_buffers_in_a_ring(machine, size, dtype):
    x = (np.arange(7 * size) % 61).astype(dtype)
    y = np.zeros_like(x)
    machine.launch(ring, (1, ), mimw.TensorDescriptor.from_tensor(x, [size]), mimw.TensorDescriptor.from_tensor(y, [size]), 7,
                   size, 3)
    assert (y == x).all()


@pytest.mark.parametrize("size", [64, 128, 256])
def test_only_small_buffers_get_gaps(size):
    block = f"tensordesc<u8[{size}]>"
    compiled = to_ttgir(ring, {"source": block, "target": block, "steps": "i32"}, {"SIZE": size, "STAGES": 3})
    gaps = [line for line in compiled.stages["ttgir"].splitlines() if "ttg.memdesc_reinterpret" in line]
    assert bool(gaps) == (size < 128)


@mimw.jit
def slots(source, y, SLOTS: tl.constexpr):
    """One buffer of so many rows of 64 bytes, each of which a copy fills, as TLE has it."""
    rows = tle.gpu.alloc([SLOTS, 64], tl.int8)
    at = tl.arange(0, 64)
    for slot in tl.static_range(SLOTS):
        tle.gpu.copy(source, tlx.local_view(rows, slot), [64], [slot * 64])
        tl.store(y + slot * 64 + at, tlx.local_load(tlx.local_view(rows, slot)))


@pytest.mark.parametrize("count", [2, 3, 4])
def test_slots_of_one_buffer(machine, count):
    x = (np.arange(count * 64) % 61).astype(np.int8)
    y = np.zeros_like(x)
    machine.launch(slots, (1, ), mimw.TensorDescriptor.from_tensor(x, [64]), y, count)
    assert (y == x).all()


@mimw.jit
def seen_whole(source, y):
    rows = tlx.local_alloc((64, ), tl.int8, 2)
    full = tlx.alloc_barriers(1)
    tlx.barrier_expect_bytes(full[0], 64)
    tlx.async_descriptor_load(source, rows[1], [0], full[0])
    tlx.barrier_wait(full[0], 0)
    whole = tlx.local_reinterpret(rows, tl.int32, (32, ))
    tl.store(y + tl.arange(0, 32), tlx.local_load(whole))


def test_no_gaps_in_an_array_that_is_seen_as_a_whole():
    with pytest.raises(Exception) as caught:
        compile_kernel(seen_whole, {"source": "tensordesc<i8[64]>", "y": "*i32"})
    error = caught.value.__cause__ or caught.value
    assert isinstance(error, KernelError)
    assert "may start at any multiple of 64 bytes; TMA wants a multiple of 128" in str(error)
