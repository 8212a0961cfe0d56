"""One ring kernel whose every synchronising word can be switched off or changed: what the truth tables run.

Shapes: a (64, 64 steps) and b (64 steps, 64) in fp16, c (64, 64), one program. Mistakes: each switch of `RIGHT` leaves out or
shifts a wait, an arrive, the expected bytes or the fence, as `pipeline_arguments(FENCE=False)` does; the functions at the end
are three of them, for `mimw check tests/kernels/tma_pipeline.py:NAME`.
"""

import numpy as np
import triton.language as tl

import mimw
import mimw.tlx as tlx


@mimw.jit
def pipeline(a_desc, b_desc, c_desc, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr,
             WAIT_FULL: tl.constexpr, WAIT_DOT: tl.constexpr, RELEASE_FIRST: tl.constexpr, RELEASE: tl.constexpr,
             WAIT_FREE: tl.constexpr, FIRST_PARITY: tl.constexpr, EXPECT: tl.constexpr, FENCE: tl.constexpr,
             FULL_SHIFT: tl.constexpr):
    """c = a b for one tile: TMA into a ring, asynchronous dots out of it, TMA store of the result."""
    a_tiles = tlx.local_alloc((BM, BK), tl.float16, STAGES)
    b_tiles = tlx.local_alloc((BK, BN), tl.float16, STAGES)
    c_tile = tlx.local_alloc((BM, BN), tl.float16, 1)
    full = tlx.alloc_barriers(STAGES)
    free = tlx.alloc_barriers(STAGES)
    with tlx.async_tasks():
        with tlx.async_task("default"):  # consumer
            acc = tl.zeros((BM, BN), tl.float32)
            for step in range(K // BK):
                slot, phase = tlx.warp_spec.get_bufidx_phase(step, STAGES)
                if WAIT_FULL:
                    tlx.barrier_wait(full[slot], phase ^ FULL_SHIFT)
                acc = tlx.async_dot(a_tiles[slot], b_tiles[slot], acc)
                if RELEASE_FIRST:
                    tlx.barrier_arrive(free[slot])
                if WAIT_DOT:
                    acc = tlx.async_dot_wait(0, acc)
                if RELEASE and not RELEASE_FIRST:
                    tlx.barrier_arrive(free[slot])
            acc = tlx.async_dot_wait(0, acc)
            tlx.local_store(c_tile[0], acc.to(tl.float16))
            if FENCE:
                tlx.fence("async_shared")
            tlx.async_descriptor_store(c_desc, c_tile[0], [0, 0])
            tlx.async_descriptor_store_wait(0)
        with tlx.async_task(num_warps=1, num_regs=24):  # producer
            for step in range(K // BK):
                slot, phase = tlx.warp_spec.get_bufidx_phase(step, STAGES)
                if WAIT_FREE:
                    tlx.barrier_wait(free[slot], phase ^ FIRST_PARITY)
                tlx.barrier_expect_bytes(full[slot], EXPECT)
                tlx.async_descriptor_load(a_desc, a_tiles[slot], [0, step * BK], full[slot])
                tlx.async_descriptor_load(b_desc, b_tiles[slot], [step * BK, 0], full[slot])


RIGHT = dict(BM=64, BN=64, BK=64, STAGES=2, WAIT_FULL=True, WAIT_DOT=True, RELEASE_FIRST=False, RELEASE=True, WAIT_FREE=True,
             FIRST_PARITY=1, EXPECT=2 * 64 * 64 * 2, FENCE=True, FULL_SHIFT=0)


def pipeline_arguments(steps: int = 6, **changes):
    """(grid, args, meta) of `pipeline` with some of its switches changed."""
    random = np.random.default_rng(0)
    a = random.standard_normal((64, 64 * steps)).astype(np.float16)
    b = random.standard_normal((64 * steps, 64)).astype(np.float16)
    c = np.zeros((64, 64), np.float16)
    describe = mimw.TensorDescriptor.from_tensor
    args = describe(a, [64, 64]), describe(b, [64, 64]), describe(c, [64, 64]), 64 * steps
    return (1, ), args, {**RIGHT, **changes}


# The three wrong programs of docs/BUGS.md, for `mimw check tests/kernels/tma_pipeline.py:NAME`.

def released_before_the_wait():
    return pipeline, *pipeline_arguments(RELEASE_FIRST=True)


def first_wait_with_parity_0():
    return pipeline, *pipeline_arguments(FIRST_PARITY=0)


def right_pipeline():
    return pipeline, *pipeline_arguments()


def not_waited_for():
    return pipeline, *pipeline_arguments(WAIT_FULL=False)
