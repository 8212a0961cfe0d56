"""The suspend-time hint of barrier waits: in every wait of the kernel, and without effect on what it computes."""

import numpy as np
import pytest
import triton
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.runtime.compile_kernel import compile_kernel
from tests.compiling import to_assembly


@mimw.jit
def relay(x_ptr, y_ptr, steps, N: tl.constexpr, FIRST: tl.constexpr, SECOND: tl.constexpr):
    """A ring of two tiles between two tasks, twice; the second region without a hint of its own, unless SECOND is one."""
    tiles = tlx.local_alloc((N, ), tl.float32, 2)
    full, free = tlx.alloc_barriers(2), tlx.alloc_barriers(2)
    with tlx.async_tasks(mbarrier_try_wait_suspend_ns=FIRST):
        with tlx.async_task("default"):
            for i in range(steps):
                slot, phase = tlx.warp_spec.get_bufidx_phase(i, 2)
                tlx.barrier_wait(full[slot], phase)
                tl.store(y_ptr + i * N + tl.arange(0, N), tlx.local_load(tiles[slot]))
                tlx.barrier_arrive(free[slot])
        with tlx.async_task(num_warps=2):
            for i in range(steps):
                slot, phase = tlx.warp_spec.get_bufidx_phase(i, 2)
                tlx.barrier_wait(free[slot], phase ^ 1, pred=i > 1)
                tlx.local_store(tiles[slot], tl.load(x_ptr + i * N + tl.arange(0, N)) + 1)
                tlx.barrier_arrive(full[slot])
    done = tlx.alloc_barriers(1)
    with tlx.async_tasks(mbarrier_try_wait_suspend_ns=SECOND):
        with tlx.async_task("default"):
            tlx.barrier_wait(done[0], 0)
        with tlx.async_task(num_warps=1):
            tlx.barrier_arrive(done[0])


@pytest.mark.parametrize("first, second", [(100, None), (0, 50), (None, None)])
def test_results_are_the_same(machine, first, second):
    x = np.arange(5 * 64, dtype=np.float32)
    y = np.zeros_like(x)
    machine.launch(relay, (1, ), x, y, 5, 64, first, second)
    assert (y == x + 1).all()


@mimw.jit
def relay_in_a_cluster(x_ptr, y_ptr, N: tl.constexpr):
    """Each CTA waits, with a hint, for its own barriers: one of them of single threads."""
    tile = tlx.local_alloc((N, ), tl.float32, 1)
    ready, read = tlx.alloc_barriers(1), tlx.alloc_warp_barrier(1, num_warps=4)
    first = tl.program_id(0) * N
    with tlx.async_tasks(mbarrier_try_wait_suspend_ns=100):
        with tlx.async_task("default"):
            tlx.barrier_wait(ready[0], 0)
            tl.store(y_ptr + first + tl.arange(0, N), tlx.local_load(tile[0]))
            tlx.barrier_arrive(read[0])
        with tlx.async_task(num_warps=4):
            tlx.local_store(tile[0], tl.load(x_ptr + first + tl.arange(0, N)) + 1)
            tlx.barrier_arrive(ready[0])
            tlx.barrier_wait(read[0], 0)
            tlx.local_store(tile[0], tl.zeros((N, ), tl.float32))


def test_barriers_are_of_the_own_cta(machine):
    x = np.arange(4 * 64, dtype=np.float32)
    y = np.zeros_like(x)
    machine.launch(relay_in_a_cluster, (4, ), x, y, 64, ctas_per_cga=(4, 1, 1))
    assert (y == x + 1).all()


@pytest.mark.parametrize("first, second, hint", [(100, None, "100"), (300, 200, "200"), (0, 200, None), (None, None, None)])
def test_the_smallest_hint_is_in_every_wait(first, second, hint):
    ptx = to_assembly(relay, {"x_ptr": "*fp32", "y_ptr": "*fp32", "steps": "i32"},
                      {"N": 64, "FIRST": first, "SECOND": second}).stages["ptx"]
    waits = [line.strip() for line in ptx.splitlines() if "mbarrier.try_wait" in line]
    assert len(waits) == 3
    hinted = [line for line in waits if hint is not None and line.endswith(f", {hint};")]
    assert len(hinted) == (0 if hint is None else 3)


@pytest.mark.parametrize("wrong", [-1, 1.5, True])
def test_other_values_are_refused(wrong):
    with pytest.raises(triton.CompilationError, match="mbarrier_try_wait_suspend_ns must be a non-negative integer"):
        compile_kernel(relay, {"x_ptr": "*fp32", "y_ptr": "*fp32", "steps": "i32"}, {"N": 64, "FIRST": wrong, "SECOND": None})
