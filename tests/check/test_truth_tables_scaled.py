"""Truth tables of block scales: when is a program right that copies scales to tensor memory and multiplies by them?

The chip is an sm_100a. Besides: each planted mistake is named, with both lines.
"""

import ml_dtypes
import numpy as np
import pytest
import triton.language as tl

import mimw.tlx as tlx
from mimw import jit

from .tables import right, rows, states
from .test_truth_tables_tensor import found, lines_of


@jit
def scale_ring(x_ptr, w_ptr, s_ptr, c_ptr, STEPS: tl.constexpr, SHARED: tl.constexpr, FENCE: tl.constexpr, WAIT_FREE: tl.constexpr,
               EARLY: tl.constexpr, COPY: tl.constexpr, COMMIT: tl.constexpr):
    """One slot of scales, which one task stores and another one copies, or has copied (SHARED), and multiplies by."""
    x, w = tlx.local_alloc((128, 128), tl.float8e4nv, 1), tlx.local_alloc((16, 128), tl.float8e4nv, 1)
    scales = tlx.local_alloc((1, 1, 32, 16), tl.uint8, 1)
    acc = tlx.local_alloc((128, 16), tl.float32, 1, tlx.storage_kind.tmem)
    full, free, done = tlx.alloc_barriers(1), tlx.alloc_barriers(1), tlx.alloc_barriers(1)
    k_at = tl.arange(0, 128)[None, :]
    tlx.local_store(x[0], tl.load(x_ptr + tl.arange(0, 128)[:, None] * 128 + k_at))
    tlx.local_store(w[0], tl.load(w_ptr + tl.arange(0, 16)[:, None] * 128 + k_at))
    tlx.fence("async_shared")
    if not SHARED:
        table = tlx.local_alloc((128, 4), tl.uint8, 1, tlx.storage_kind.tmem)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            if COMMIT:
                tlx.barrier_wait(done[0], 0)
            tl.store(c_ptr + tl.arange(0, 128)[:, None] * 16 + tl.arange(0, 16)[None, :], tlx.local_load(acc[0]))
        with tlx.async_task(num_warps=4):
            for k in range(STEPS):
                if WAIT_FREE:
                    tlx.barrier_wait(free[0], k & 1 ^ 1)
                tlx.local_store(scales[0], tl.load(s_ptr + k * 512 + tl.arange(0, 512)).reshape([1, 1, 32, 16]))
                if FENCE:
                    tlx.fence("async_shared")
                tlx.barrier_arrive(full[0])
        with tlx.async_task(num_warps=1):
            for k in range(STEPS):
                tlx.barrier_wait(full[0], k & 1)
                if SHARED:
                    tlx.async_dot_scaled(x[0], tlx.local_trans(w[0]), acc[0], scales[0], "e4m3", scales[0], "e4m3", use_acc=k > 0,
                                         force_async=True)
                else:
                    if COPY:
                        tlx.tmem_copy(scales[0], table[0])
                    tlx.async_dot_scaled(x[0], tlx.local_trans(w[0]), acc[0], table[0], "e4m3", table[0], "e4m3", use_acc=k > 0,
                                         force_async=True)
                    if not COPY:
                        tlx.tmem_copy(scales[0], table[0])
                if EARLY:
                    tlx.barrier_arrive(free[0])
                else:
                    tlx.tcgen05_commit(free[0])
            tlx.tcgen05_commit(done[0])


@states("tmem_copy", "tcgen05_mma_scaled")
def scaled(steps=3, shared=False, fence=True, wait_free=True, early=False, copy=True, commit=True):
    x, w = (np.ones((extent, 128), ml_dtypes.float8_e4m3fn) for extent in (128, 16))
    meta = dict(STEPS=steps, SHARED=shared, FENCE=fence, WAIT_FREE=wait_free, EARLY=early, COPY=copy, COMMIT=commit)
    arrays = x, w, np.full((steps, 512), 127, np.uint8), np.zeros((128, 16), np.float32)
    return scale_ring, (1, ), arrays, dict(meta, target="sm_100a")


@pytest.mark.long(but=["True-True-True", "False-True-True", "True-False-True", "True-True-False"], everywhere=True)
@rows("shared", "fence", "wait_free")
def test_stored_scales(shared, fence, wait_free):
    """What another task stores needs a fence of that task, and room that a commit behind the copy has given back."""
    assert right(scaled(shared=shared, fence=fence, wait_free=wait_free), "random") == (fence and wait_free)


@rows("early", "commit")
def test_commits(early, commit):
    """The slot is given back by a commit, not by an arrival; the sum is read behind one."""
    assert right(scaled(early=early, commit=commit), "random") == (not early and commit)


@pytest.mark.parametrize("copy", [True, False])
def test_the_copy_comes_first(copy):
    """Copies and products of a task are in order, so nothing else is asked for."""
    assert right(scaled(copy=copy), "random") == copy


@pytest.mark.parametrize("shared", [True, False])
def test_scales_overwritten_before_the_commit_are_named(shared):
    one = found(scaled(shared=shared, early=True), "SourceOverwritten")
    assert "scales" in one.message and len(lines_of(one)) >= 2


@pytest.mark.parametrize("shared", [True, False])
def test_a_missing_fence_is_named(shared):
    one = found(scaled(shared=shared, fence=False), "MissingFence")
    assert "scales" in one.message and len(lines_of(one)) >= 2


def test_a_table_read_before_its_copy_is_named():
    one = found(scaled(copy=False), "UnwrittenRead")
    assert "table" in one.message
