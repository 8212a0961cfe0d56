"""Truth tables of tensor memory: when is a program with tcgen05 products and their commits right? The simulator agrees in all rows.

The chip is an sm_100a. Besides: each planted mistake is named, with both lines.
"""

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx

from .tables import SWITCHES, found, lines_of, right, rows, states

describe = mimw.TensorDescriptor.from_tensor


@mimw.jit
def ring(a_desc, b_desc, c_ptr, STEPS: tl.constexpr, WAIT_FULL: tl.constexpr, WAIT_FREE: tl.constexpr, RELEASE: tl.constexpr,
         COMMIT: tl.constexpr, WAIT_DONE: tl.constexpr, EARLY: tl.constexpr):
    """A ring of two slots: one task loads, one multiplies into tensor memory and frees by commits, one reads the sum."""
    a, b = tlx.local_alloc((64, 16), tl.float16, 2), tlx.local_alloc((16, 32), tl.float16, 2)
    acc = tlx.local_alloc((64, 32), tl.float32, 1, tlx.storage_kind.tmem)
    full, free, done = tlx.alloc_barriers(2), tlx.alloc_barriers(2), tlx.alloc_barriers(1)
    with tlx.async_tasks():
        with tlx.async_task("default"):  # epilogue
            if WAIT_DONE:
                tlx.barrier_wait(done[0], 0)
            at = tl.arange(0, 64)[:, None] * 32 + tl.arange(0, 32)[None, :]
            tl.store(c_ptr + at, tlx.local_load(acc[0]))
        with tlx.async_task(num_warps=1):  # load
            for k in range(STEPS):
                if WAIT_FREE:
                    tlx.barrier_wait(free[k % 2], (k // 2) & 1 ^ 1)
                tlx.barrier_expect_bytes(full[k % 2], (64 + 32) * 16 * 2)
                tlx.async_descriptor_load(a_desc, a[k % 2], [0, k * 16], full[k % 2])
                tlx.async_descriptor_load(b_desc, b[k % 2], [k * 16, 0], full[k % 2])
        with tlx.async_task(num_warps=1):  # mma
            for k in range(STEPS):
                if WAIT_FULL:
                    tlx.barrier_wait(full[k % 2], (k // 2) & 1)
                if RELEASE:
                    tlx.async_dot(a[k % 2], b[k % 2], acc[0], use_acc=k > 0, mBarriers=[free[k % 2]])
                else:
                    tlx.async_dot(a[k % 2], b[k % 2], acc[0], use_acc=k > 0, force_async=True)
                    if EARLY:
                        tlx.barrier_arrive(free[k % 2])
            if COMMIT:
                tlx.tcgen05_commit(done[0])


@states("tcgen05_mma", "tcgen05_commit", "tmem_load")
def tensor_ring(steps=4, wait_full=True, wait_free=True, release=True, commit=True, wait_done=True, early=False):
    a, b, c = np.ones((64, 16 * steps), np.float16), np.ones((16 * steps, 32), np.float16), np.zeros((64, 32), np.float32)
    meta = dict(STEPS=steps, WAIT_FULL=wait_full, WAIT_FREE=wait_free, RELEASE=release, COMMIT=commit, WAIT_DONE=wait_done,
                EARLY=early)
    return ring, (1, ), (describe(a, [64, 16]), describe(b, [16, 32]), c), dict(meta, target="sm_100a")


@rows("wait_full", "wait_free", "release")
def test_the_ring(wait_full, wait_free, release):
    """With more steps than slots it is right iff everybody waits and the commits release."""
    assert right(tensor_ring(wait_full=wait_full, wait_free=wait_free, release=release), "random") == (
        wait_full and wait_free and release)


@rows("commit", "wait_done")
def test_the_epilogue(commit, wait_done):
    """The sum may be read iff a commit behind the last product is waited for."""
    assert right(tensor_ring(commit=commit, wait_done=wait_done), "random") == (commit and wait_done)


def test_an_accumulator_read_before_its_commit_is_named():
    one = found(tensor_ring(wait_done=False), "CopyReadEarly", "UnwrittenRead")
    assert "acc" in one.message


def test_a_slot_given_back_before_its_product_is_done_is_named():
    """By an arrive of the task that multiplies, where a commit should be."""
    assert len(lines_of(found(tensor_ring(release=False, early=True), "OperandOverwritten"))) >= 2


@mimw.jit
def two_writers(a_ptr, c_ptr, ORDERED: tl.constexpr):
    """Two tasks multiply into one accumulator; the second after the first's commit, or at any time."""
    tile = tlx.local_alloc((64, 16), tl.float16, 1)
    acc = tlx.local_alloc((64, 16), tl.float32, 1, tlx.storage_kind.tmem)
    done = tlx.alloc_barriers(2)
    at = tl.arange(0, 64)[:, None] * 16 + tl.arange(0, 16)[None, :]
    tlx.local_store(tile[0], tl.load(a_ptr + at))
    tlx.fence("async_shared")
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tlx.barrier_wait(done[1], 0)
            if not ORDERED:
                tlx.barrier_wait(done[0], 0)
            tl.store(c_ptr + tl.arange(0, 64)[:, None] * 16 + tl.arange(0, 16)[None, :], tlx.local_load(acc[0]))
        with tlx.async_task(num_warps=1):
            tlx.async_dot(tile[0], tlx.local_slice(tile[0], [0, 0], [16, 16]), acc[0], use_acc=False, mBarriers=[done[0]])
        with tlx.async_task(num_warps=1):
            if ORDERED:
                tlx.barrier_wait(done[0], 0)
            tlx.async_dot(tile[0], tlx.local_slice(tile[0], [0, 0], [16, 16]), acc[0], mBarriers=[done[1]])


@states("tcgen05_mma")
def writers(ordered=True):
    a, c = np.ones((64, 16), np.float16), np.zeros((64, 16), np.float32)
    return two_writers, (1, ), (a, c), dict(ORDERED=ordered, target="sm_100a")


@pytest.mark.parametrize("ordered", SWITCHES)
def test_two_tasks_and_one_accumulator(ordered):
    """Products of two tasks are in no order of their own."""
    assert right(writers(ordered), "random") == ordered
    if not ordered:
        assert "acc" in found(writers(ordered), "CopyReadEarly", "DataRace", "UnwrittenRead").message


@mimw.jit
def stored_operand(a_ptr, c_ptr, FENCE: tl.constexpr, OTHER: tl.constexpr, STORE_TMEM: tl.constexpr, WAIT: tl.constexpr):
    """The operand comes from registers: stored by the task that multiplies, or by another one."""
    tile = tlx.local_alloc((64, 16), tl.float16, 1)
    acc = tlx.local_alloc((64, 16), tl.float32, 1, tlx.storage_kind.tmem)
    ready, done = tlx.alloc_barriers(1), tlx.alloc_barriers(1)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            at = tl.arange(0, 64)[:, None] * 16 + tl.arange(0, 16)[None, :]
            if STORE_TMEM:
                tlx.local_store(acc[0], tl.zeros((64, 16), tl.float32))
            if OTHER:
                tlx.local_store(tile[0], tl.load(a_ptr + at))
                if FENCE:
                    tlx.fence("async_shared")
            tlx.barrier_arrive(ready[0])
            if WAIT:
                tlx.barrier_wait(done[0], 0)
            tl.store(c_ptr + at, tlx.local_load(acc[0]))
        with tlx.async_task(num_warps=4):
            if not OTHER:
                here = tl.arange(0, 64)[:, None] * 16 + tl.arange(0, 16)[None, :]
                tlx.local_store(tile[0], tl.load(a_ptr + here))
            tlx.barrier_wait(ready[0], 0)
            tlx.async_dot(tile[0], tlx.local_slice(tile[0], [0, 0], [16, 16]), acc[0], use_acc=STORE_TMEM, mBarriers=[done[0]])


@states("tmem_store", "tcgen05_mma", "fence")
def operand_from_registers(fence=True, other=True, store_tmem=True, wait=True):
    return stored_operand, (1, ), (np.ones((64, 16), np.float16), np.zeros((64, 16), np.float32)), dict(
        FENCE=fence, OTHER=other, STORE_TMEM=store_tmem, WAIT=wait, target="sm_100a")


@rows("fence", "other", "store_tmem")
def test_operands_written_by_whom(fence, other, store_tmem):
    """What another task stored needs a fence of the author's; the accumulator needs none, whoever stored it."""
    assert right(operand_from_registers(fence, other, store_tmem), "random") == (fence or not other)
    if other and not fence:
        assert len(lines_of(found(operand_from_registers(fence, other, store_tmem), "MissingFence"))) >= 2


@pytest.mark.parametrize("wait", SWITCHES)
def test_a_product_that_nobody_waits_for(wait):
    assert right(operand_from_registers(wait=wait), "random") == wait


@mimw.jit
def abandoned(a_ptr, COMMIT: tl.constexpr):
    tile = tlx.local_alloc((64, 16), tl.float16, 1)
    acc = tlx.local_alloc((64, 16), tl.float32, 1, tlx.storage_kind.tmem)
    done = tlx.alloc_barriers(1)
    tlx.local_store(tile[0], tl.load(a_ptr + tl.arange(0, 64)[:, None] * 16 + tl.arange(0, 16)[None, :]))
    tlx.async_dot(tile[0], tlx.local_slice(tile[0], [0, 0], [16, 16]), acc[0], use_acc=False, force_async=True)
    if COMMIT:
        tlx.tcgen05_commit(done[0])
        tlx.barrier_wait(done[0], 0)


@pytest.mark.parametrize("commit", [True, False])
def test_a_cta_outlives_its_products(commit):
    launch = abandoned, (1, ), (np.ones((64, 16), np.float16), ), dict(COMMIT=commit, target="sm_100a")
    assert right(launch, "random") == commit
    if not commit:
        assert "async_dot" in found(launch, "UnfinishedAtExit").message


@mimw.jit
def overlaid(a_desc, b_desc, c_ptr, AGAIN: tl.constexpr, EARLY: tl.constexpr, APART: tl.constexpr):
    """A product's sum in two array's columns: half the columns get the sum in 16 bits, beside or behind what is read once more."""
    a, b = tlx.local_alloc((64, 16), tl.float16, 1), tlx.local_alloc((16, 32), tl.float16, 1)
    spec = tlx.storage_alias_spec(tlx.storage_kind.tmem)
    s = tlx.local_alloc((64, 32), tl.float32, 1, tlx.storage_kind.tmem, reuse=spec)
    p = tlx.local_alloc((64, 32), tl.float16, 1, tlx.storage_kind.tmem, reuse=spec)
    if APART:
        spec.set_buffer_overlap(tlx.reuse_group(s, p, group_type=tlx.reuse_group_type.distinct))
    full = tlx.alloc_barriers(1)
    tlx.barrier_expect_bytes(full[0], (64 + 32) * 16 * 2)
    tlx.async_descriptor_load(a_desc, a[0], [0, 0], full[0])
    tlx.async_descriptor_load(b_desc, b[0], [0, 0], full[0])
    tlx.barrier_wait(full[0], 0)
    tlx.async_dot(a[0], b[0], s[0], use_acc=False)
    low, high = tlx.local_load(tlx.subslice(s[0], 0, 16)), tlx.local_load(tlx.subslice(s[0], 16, 16))
    tlx.local_store(p[0], tl.full((64, 32), 1, tl.float16))
    if AGAIN:
        tlx.async_dot(a[0], b[0], s[0], use_acc=False)
    columns = tlx.subslice(s[0], 0 if EARLY else 16, 16)     # p lies in the first 16 columns
    at = tl.arange(0, 64)[:, None] * 16 + tl.arange(0, 16)[None, :]
    tl.store(c_ptr + at, low + high + tlx.local_load(columns))


@states("tmem_load", "tmem_store")
def overlay(again=True, early=True, apart=False):
    arrays = np.ones((64, 16), np.float16), np.ones((16, 32), np.float16), np.zeros((64, 16), np.float32)
    return overlaid, (1, ), (describe(arrays[0], [64, 16]), describe(arrays[1], [16, 32]), arrays[2]), dict(
        AGAIN=again, EARLY=early, APART=apart, target="sm_100a")


@rows("again", "early", "apart")
def test_arrays_that_share_columns(again, early, apart):
    """What an array holds is right until another array of its columns is written; in other columns, or written again, it is."""
    assert right(overlay(again, early, apart), "random") == (again or not early or apart)


def test_an_array_that_another_one_has_overwritten_is_named():
    one = found(overlay(again=False), "UnwrittenRead")
    assert len(lines_of(one)) == 2 and "'p' shares it" in one.message and "column 0 of its 16" in one.message


@mimw.jit
def told_twice(a_ptr, c_ptr, PRODUCT: tl.constexpr, COMMIT: tl.constexpr, BETWEEN: tl.constexpr, COUNT: tl.constexpr,
               BY_TASKS: tl.constexpr):
    """A barrier in `mBarriers` and in a commit behind that, one after the other or with a wait between."""
    tile = tlx.local_alloc((64, 16), tl.float16, 1)
    acc = tlx.local_alloc((64, 16), tl.float32, 1, tlx.storage_kind.tmem)
    done, other = tlx.alloc_barriers(1, COUNT), tlx.alloc_barriers(1)
    at = tl.arange(0, 64)[:, None] * 16 + tl.arange(0, 16)[None, :]
    tlx.local_store(tile[0], tl.load(a_ptr + at))
    tlx.fence("async_shared")
    with tlx.async_tasks():
        with tlx.async_task("default"):
            if BY_TASKS:
                tlx.barrier_wait(done[0], 0)                                                                    # waited for
                if BETWEEN:
                    tlx.barrier_arrive(other[0])
                    tlx.barrier_wait(done[0], 1)
                here = tl.arange(0, 64)[:, None] * 16 + tl.arange(0, 16)[None, :]
                tl.store(c_ptr + here, tlx.local_load(acc[0]))
        with tlx.async_task(num_warps=4):
            if PRODUCT:
                tlx.async_dot(tile[0], tlx.local_slice(tile[0], [0, 0], [16, 16]), acc[0], use_acc=False, mBarriers=[done[0]])
            else:
                tlx.async_dot(tile[0], tlx.local_slice(tile[0], [0, 0], [16, 16]), acc[0], use_acc=False, force_async=True)
            if BETWEEN and BY_TASKS:
                tlx.barrier_wait(other[0], 0)
            if BETWEEN and not BY_TASKS:
                tlx.barrier_wait(done[0], 0)
            if COMMIT:
                tlx.tcgen05_commit(done[0])
            if not BY_TASKS:
                tlx.barrier_wait(done[0], 1 if BETWEEN else 0)                                                  # waited for
                there = tl.arange(0, 64)[:, None] * 16 + tl.arange(0, 16)[None, :]
                tl.store(c_ptr + there, tlx.local_load(acc[0]))


@states("tcgen05_commit", "barrier_wait")
def one_barrier_twice(product=True, commit=True, between=True, count=1, by_tasks=True):
    return told_twice, (1, ), (np.ones((64, 16), np.float16), np.zeros((64, 16), np.float32)), dict(
        PRODUCT=product, COMMIT=commit, BETWEEN=between, COUNT=count, BY_TASKS=by_tasks, target="sm_100a")


@pytest.mark.parametrize("by_tasks", SWITCHES)
@pytest.mark.parametrize("product, commit, between, count, is_right", [
    (True, True, False, 1, False), (True, True, False, 2, True), (True, True, True, 1, True), (True, False, False, 1, True),
    (False, True, False, 1, True), (True, False, False, 2, False),
])
def test_one_barrier_for_a_product_and_a_commit(product, commit, between, count, is_right, by_tasks):
    """Each brings an arrival: right iff they are the arrivals of one phase, or the first is waited for before the second comes."""
    assert right(one_barrier_twice(product, commit, between, count, by_tasks), "random") == is_right


@pytest.mark.parametrize("by_tasks", SWITCHES)
def test_one_barrier_twice_is_refused_before_any_run(by_tasks):
    one = found(one_barrier_twice(between=False, by_tasks=by_tasks), "TooManyArrivals")
    assert one.seed is None and "a product at" in one.message and "a tcgen05_commit at" in one.message
    assert len(lines_of(one)) == 4 and "arrive_count=2" in str(one)
