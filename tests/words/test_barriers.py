"""Barriers on which each thread arrives for itself, and the hardware's named ones."""

import re

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.runtime.compile_kernel import compile_kernel


@mimw.jit
def relay(x_ptr, y_ptr, steps, SIZE: tl.constexpr, STAGES: tl.constexpr):
    tiles = tlx.local_alloc((SIZE, ), tlx.dtype_of(x_ptr), STAGES)
    full = tlx.alloc_warp_barrier(STAGES, num_warps=2, num_arrivals=2)
    free = tlx.alloc_warp_barrier(num_barriers=STAGES, num_warps=4)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            at = tl.arange(0, SIZE)
            for step in range(steps):
                slot, phase = tlx.warp_spec.get_bufidx_phase(step, STAGES)
                tlx.barrier_wait(full[slot], phase)
                tile = tlx.local_load(tiles[slot])
                tlx.barrier_arrive(free[slot])
                tl.store(y_ptr + step * SIZE + at, tile * 2)
        with tlx.async_task(num_warps=2):
            at = tl.arange(0, SIZE)
            for step in range(steps):
                slot, phase = tlx.warp_spec.get_bufidx_phase(step, STAGES)
                tlx.barrier_wait(free[slot], phase ^ 1)
                tlx.local_store(tiles[slot], tl.load(x_ptr + step * SIZE + at))
                tlx.barrier_arrive(full[slot])
                tlx.barrier_arrive(full[slot], pred=step >= 0)


@pytest.mark.parametrize("stages", [1, 3])
def test_each_thread_arrives(machine, stages):
    x = np.arange(7 * 256, dtype=np.float32).reshape(7, 256)
    y = np.zeros_like(x)
    machine.launch(relay, (1, ), x, y, 7, 256, stages)
    assert (y == 2 * x).all()


@mimw.jit
def ping_pong(y_ptr, marks_ptr, rounds, SIZE: tl.constexpr):
    tile = tlx.local_alloc((SIZE, ), tl.float32, 1)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            at = tl.arange(0, SIZE)
            tlx.local_store(tile[0], at.to(tl.float32))
            for _ in range(rounds):
                tlx.named_barrier_arrive(9, 160)
                tlx.named_barrier_wait(10, 160)
            tl.store(y_ptr + at, tlx.local_load(tile[0]))
        with tlx.async_task(num_warps=1):
            lane = tlx.thread_id(0) % 32
            for step in range(rounds):
                if lane == 0:
                    tl.store(marks_ptr + step, step + 1)
                tlx.named_barrier_wait(9, 160)
                tlx.local_store(tile[0], tlx.local_load(tile[0]) + 1)
                if lane == 3:
                    tl.store(marks_ptr + rounds + tl.arange(0, 32), tl.full([32], 5, tl.int32))
                tlx.named_barrier_arrive(10, 160)


def test_named_barriers_beside_divergent_code(machine):
    rounds, y, marks = 5, np.zeros(64, np.float32), np.zeros(5 + 32, np.int32)
    machine.launch(ping_pong, (1, ), y, marks, rounds, 64)
    assert (y == np.arange(64) + rounds).all()
    assert marks.tolist() == [1, 2, 3, 4, 5] + [5 if lane == 3 else 0 for lane in range(32)]


@mimw.jit
def warps_by_themselves(x_ptr, y_ptr, rounds, N: tl.constexpr, THREADS: tl.constexpr):
    """Four warps at a barrier that is for one, two or four of them: four, two or one rounds each time."""
    tile = tlx.local_alloc((N, ), tl.float32, 1)
    at = tl.arange(0, N)
    for step in range(rounds):
        tlx.local_store(tile[0], tl.load(x_ptr + step * N + at))
        tlx.named_barrier_wait(14, THREADS)
        tl.store(y_ptr + step * N + at, tlx.local_load(tile[0]))
        tlx.named_barrier_wait(14, THREADS)


@pytest.mark.parametrize("threads", [32, 64, 128])
def test_named_barriers_count_warps(machine, threads):
    x = np.arange(5 * 256, dtype=np.float32).reshape(5, 256)
    y = np.zeros_like(x)
    machine.launch(warps_by_themselves, (2, ), x, y, 5, 256, threads)
    assert (y == x).all()


def test_named_barriers_for_one_warp_are_one_instruction():
    signature = {"x_ptr": "*fp32", "y_ptr": "*fp32", "rounds": "i32"}
    compiled = compile_kernel(warps_by_themselves, signature, {"N": 256, "THREADS": 32})
    assert len(re.findall(r"bar(rier)?\.sync \t?14, 32;", compiled.stage("ptx"))) == 2


@mimw.jit
def met_by_all(y, WARPS: tl.constexpr):
    """The first op that uses the barrier is assembly, in which Triton sees no barrier."""
    bars = tlx.alloc_warp_barrier(1, num_warps=WARPS)
    tlx.barrier_arrive(bars[0])
    tlx.barrier_wait(bars[0], 0)
    tl.store(y + tl.arange(0, 256), tl.arange(0, 256))


@pytest.mark.parametrize("num_warps", [2, 8])
def test_threads_arrive_after_the_barrier_is_made(machine, num_warps):
    y = np.zeros(256, np.int32)
    machine.launch(met_by_all, (64, ), y, num_warps, num_warps=num_warps)
    assert (y == np.arange(256)).all()


def test_a_sync_stands_between_the_making_and_the_first_arrival_of_threads():
    ptx = compile_kernel(met_by_all, {"y": "*i32"}, {"WARPS": 8}, options={"num_warps": 8}).stages["ptx"]
    made, arrived = ptx.index("mbarrier.init"), ptx.index("mbarrier.arrive")
    assert "bar.sync" in ptx[made:arrived]
