"""For each synchronising word: when is a program right? Each table states it in one line, and the simulator agrees in all rows."""

import itertools

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx

from .kernels import pipeline, pipeline_arguments

SWITCHES = (False, True)


def rows(*names):
    """Every way to set the switches."""
    return pytest.mark.parametrize(", ".join(names), list(itertools.product(SWITCHES, repeat=len(names))))


def right(kernel, *args, grid=1, **meta) -> bool:
    report = mimw.check(kernel, grid, *args, seeds=4, search="both", limit=30, shrink=False, **meta)
    assert report.complete or not report.ok or report.runs == 0
    return report.ok


@rows("wait_full", "wait_dot", "wait_free", "release")
def test_the_ring_of_tma_and_dots(wait_full, wait_dot, wait_free, release):
    """With more steps than slots it is right iff everybody waits and the slot is released."""
    grid, args, meta = pipeline_arguments(WAIT_FULL=wait_full, WAIT_DOT=wait_dot, WAIT_FREE=wait_free, RELEASE=release)
    assert right(pipeline, *args, **meta) == (wait_full and wait_dot and wait_free and release)


@pytest.mark.parametrize("steps", [1, 2, 3])
@rows("wait_free", "wait_dot")
def test_slots_that_are_used_once_need_no_release(steps, wait_free, wait_dot):
    """With two slots the free barrier and the wait of each dot matter iff there are more than two steps."""
    grid, args, meta = pipeline_arguments(steps, WAIT_FREE=wait_free, WAIT_DOT=wait_dot)
    assert right(pipeline, *args, **meta) == (steps <= 2 or (wait_free and wait_dot))


@pytest.mark.parametrize("full_shift, first_parity", list(itertools.product((0, 1), repeat=2)))
def test_parities(full_shift, first_parity):
    """Right iff the reader starts with parity 0 and the filler with parity 1."""
    grid, args, meta = pipeline_arguments(FULL_SHIFT=full_shift, FIRST_PARITY=first_parity)
    assert right(pipeline, *args, **meta) == (full_shift == 0 and first_parity == 1)


@pytest.mark.parametrize("expect", [8192, 16368, 16384, 16400])
def test_expected_bytes(expect):
    """Right iff the bytes expected are those of both copies."""
    grid, args, meta = pipeline_arguments(EXPECT=expect)
    assert right(pipeline, *args, **meta) == (expect == 2 * 64 * 64 * 2)


@mimw.jit
def handed_over(x_ptr, y_desc, FENCE_BEFORE: tl.constexpr, FENCE_AFTER: tl.constexpr, ARRIVE: tl.constexpr, WAIT: tl.constexpr,
                FINISH: tl.constexpr):
    """One task writes a tile by ordinary stores, another sends it off by TMA."""
    tile = tlx.local_alloc((16, 32), tl.float16, 1)
    full = tlx.alloc_barriers(1)
    with tlx.async_tasks():
        with tlx.async_task("default"):  # writer
            at = tl.arange(0, 16)[:, None] * 32 + tl.arange(0, 32)[None, :]
            tlx.local_store(tile[0], tl.load(x_ptr + at))
            if FENCE_BEFORE:
                tlx.fence("async_shared")
            if ARRIVE:
                tlx.barrier_arrive(full[0])
        with tlx.async_task(num_warps=1):  # sender
            if WAIT:
                tlx.barrier_wait(full[0], 0)
            if FENCE_AFTER:
                tlx.fence("async_shared")
            tlx.async_descriptor_store(y_desc, tile[0], [0, 0])
            if FINISH:
                tlx.async_descriptor_store_wait(0)


@rows("fence_before", "fence_after", "arrive", "wait", "finish")
def test_a_tile_handed_to_tma(fence_before, fence_after, arrive, wait, finish):
    """Right iff there is an arrive, a wait, a fence on either side of them, and the store is waited for."""
    x, y = np.ones((16, 32), np.float16), np.zeros((16, 32), np.float16)
    y_desc = mimw.TensorDescriptor.from_tensor(y, [16, 32])
    ok = right(handed_over, x, y_desc, fence_before, fence_after, arrive, wait, finish)
    assert ok == (arrive and wait and finish and (fence_before or fence_after))


@mimw.jit
def copied(x_ptr, y_ptr, COMMIT: tl.constexpr, WAIT: tl.constexpr, ARRIVE: tl.constexpr, WAIT_FULL: tl.constexpr):
    """cp.async by one task, read by another."""
    tile = tlx.local_alloc((16, 32), tl.float16, 1)
    full = tlx.alloc_barriers(1)
    with tlx.async_tasks():
        with tlx.async_task("default"):  # reader
            at = tl.arange(0, 16)[:, None] * 32 + tl.arange(0, 32)[None, :]
            if WAIT_FULL:
                tlx.barrier_wait(full[0], 0)
            tl.store(y_ptr + at, tlx.local_load(tile[0]))
        with tlx.async_task(num_warps=4):  # copier
            here = tl.arange(0, 16)[:, None] * 32 + tl.arange(0, 32)[None, :]
            tlx.async_load(x_ptr + here, tile[0])
            if COMMIT:
                tlx.async_load_commit_group()
            if WAIT:
                tlx.async_load_wait_group(0)
            if ARRIVE:
                tlx.barrier_arrive(full[0])


@rows("commit", "wait", "arrive", "wait_full")
def test_cp_async_for_another_task(commit, wait, arrive, wait_full):
    """Right iff the group is committed, waited for and told of, and the reader waits."""
    x, y = np.ones((16, 32), np.float16), np.zeros((16, 32), np.float16)
    assert right(copied, x, y, commit, wait, arrive, wait_full) == (commit and wait and arrive and wait_full)


@mimw.jit
def two_readers(x_desc, y_ptr, COUNT: tl.constexpr, FIRST: tl.constexpr, SECOND: tl.constexpr):
    """Two tasks read one slot, which is filled three times."""
    tile = tlx.local_alloc((16, 32), tl.float16, 1)
    full = tlx.alloc_barriers(1)
    free = tlx.alloc_barriers(1, arrive_count=COUNT)
    with tlx.async_tasks():
        with tlx.async_task("default", replicate=2):
            me: tl.constexpr = tlx.async_task_replica_id()
            at = tl.arange(0, 16)[:, None] * 32 + tl.arange(0, 32)[None, :]
            for step in range(3):
                tlx.barrier_wait(full[0], step & 1)
                tl.store(y_ptr + (2 * step + me) * 512 + at, tlx.local_load(tile[0]))
                if (FIRST if me == 0 else SECOND):
                    tlx.barrier_arrive(free[0])
        with tlx.async_task(num_warps=1):
            for step in range(3):
                tlx.barrier_wait(free[0], (step & 1) ^ 1)
                tlx.barrier_expect_bytes(full[0], 1024)
                tlx.async_descriptor_load(x_desc, tile[0], [step * 16, 0], full[0])


@pytest.mark.parametrize("count, first, second", list(itertools.product((1, 2, 3), SWITCHES, SWITCHES)))
def test_arrive_counts(count, first, second):
    """Right iff both readers release and the barrier counts both."""
    x, y = np.ones((48, 32), np.float16), np.zeros((96, 32), np.float16)
    x_desc = mimw.TensorDescriptor.from_tensor(x, [16, 32])
    assert right(two_readers, x_desc, y, count, first, second) == (count == 2 and first and second)


@mimw.jit
def flagged(x_ptr, flag_ptr, y_ptr, RELEASE: tl.constexpr, ACQUIRE: tl.constexpr, FENCE: tl.constexpr, SCOPE: tl.constexpr):
    """Program 0 gives a number to program 1 by a flag in global memory."""
    if tl.program_id(0) == 0:
        tl.store(x_ptr, 7)
        if FENCE:
            tlx.fence("gpu")
        tl.atomic_xchg(flag_ptr, 1, sem=RELEASE, scope=SCOPE)
    else:
        while tl.atomic_add(flag_ptr, 0, sem=ACQUIRE, scope=SCOPE) == 0:
            pass
        if FENCE:
            tlx.fence("gpu")
        tl.store(y_ptr, tl.load(x_ptr))
    tlx.fence("gpu")


@pytest.mark.parametrize("scope", ["gpu", "cta", "sys"])
@pytest.mark.parametrize("release, acquire, fence", list(itertools.product(("release", "relaxed"), ("acquire", "relaxed"), SWITCHES)))
def test_a_flag_in_global_memory(release, acquire, fence, scope):
    """Right iff the scope holds both programs, and each side is ordered by its atomic or by a fence."""
    x, flag, y = np.zeros(1, np.int32), np.zeros(1, np.int32), np.zeros(1, np.int32)
    ok = mimw.check(flagged, 2, x, flag, y, release, acquire, fence, scope, seeds=4, shrink=False).ok
    assert ok == (scope != "cta" and (fence or (release, acquire) == ("release", "acquire")))
