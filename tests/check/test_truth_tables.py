"""For each synchronising word: when is a program right? Each table states it in one line, and the simulator agrees in all rows.

Here are the words of one CTA; test_truth_tables_cluster.py and test_truth_tables_global.py have the others, and
test_every_word_has_a_table.py sees to it that none is left out.
"""

import itertools

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from tests.kernels.tma_pipeline import pipeline, pipeline_arguments

from .tables import SWITCHES, right, rows, states

describe = mimw.TensorDescriptor.from_tensor


@states("tma_load", "async_dot", "barrier_wait", "barrier_arrive", "barrier_expect", "async_dot_wait", "fence", "tma_store",
        "tma_store_wait")
def ring(steps=6, **changes):
    grid, args, meta = pipeline_arguments(steps, **changes)
    return pipeline, grid, args, meta


@rows("wait_full", "wait_dot", "wait_free", "release")
def test_the_ring_of_tma_and_dots(wait_full, wait_dot, wait_free, release):
    """With more steps than slots it is right iff everybody waits and the slot is released."""
    ok = right(ring(WAIT_FULL=wait_full, WAIT_DOT=wait_dot, WAIT_FREE=wait_free, RELEASE=release))
    assert ok == (wait_full and wait_dot and wait_free and release)


@pytest.mark.parametrize("steps", [1, 2, 3])
@rows("wait_free", "wait_dot")
def test_slots_that_are_used_once_need_no_release(steps, wait_free, wait_dot):
    """With two slots the free barrier and the wait of each dot matter iff there are more than two steps."""
    assert right(ring(steps, WAIT_FREE=wait_free, WAIT_DOT=wait_dot)) == (steps <= 2 or (wait_free and wait_dot))


@pytest.mark.parametrize("full_shift, first_parity", list(itertools.product((0, 1), repeat=2)))
def test_parities(full_shift, first_parity):
    """Right iff the reader starts with parity 0 and the filler with parity 1."""
    assert right(ring(FULL_SHIFT=full_shift, FIRST_PARITY=first_parity)) == (full_shift == 0 and first_parity == 1)


@pytest.mark.parametrize("expect", [8192, 16368, 16384, 16400])
def test_expected_bytes(expect):
    """Right iff the bytes expected are those of both copies."""
    assert right(ring(EXPECT=expect)) == (expect == 2 * 64 * 64 * 2)


@mimw.jit
def handing_over(x_ptr, y_desc, FENCE_BEFORE: tl.constexpr, FENCE_AFTER: tl.constexpr, ARRIVE: tl.constexpr, WAIT: tl.constexpr,
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


@states("fence", "tma_store", "tma_store_wait", "barrier_arrive", "barrier_wait")
def handed_over(fence_before=True, fence_after=False, arrive=True, wait=True, finish=True):
    x, y = np.ones((16, 32), np.float16), np.zeros((16, 32), np.float16)
    return handing_over, 1, (x, describe(y, [16, 32]), fence_before, fence_after, arrive, wait, finish), {}


@rows("fence_before", "fence_after", "arrive", "wait", "finish")
def test_a_tile_handed_to_tma(fence_before, fence_after, arrive, wait, finish):
    """Right iff there is an arrive, a wait, a fence on either side of them, and the store is waited for."""
    ok = right(handed_over(fence_before, fence_after, arrive, wait, finish))
    assert ok == (arrive and wait and finish and (fence_before or fence_after))


@mimw.jit
def sending(y_desc, TILES: tl.constexpr, PENDING: tl.constexpr):
    """TMA stores of five tiles by way of TILES buffers in turn."""
    tiles = tlx.local_alloc((16, 32), tl.float16, TILES)
    for step in tl.static_range(5):
        tlx.async_descriptor_store_wait(PENDING)
        tlx.local_store(tiles[step % TILES], tl.full((16, 32), step, tl.float16))
        tlx.fence("async_shared")
        tlx.async_descriptor_store(y_desc, tiles[step % TILES], [step * 16, 0])
    tlx.async_descriptor_store_wait(0)


@states("tma_store", "tma_store_wait", "fence")
def sent(tiles=2, pending=1):
    return sending, 1, (describe(np.zeros((80, 32), np.float16), [16, 32]), tiles, pending), {}


@pytest.mark.parametrize("tiles, pending", list(itertools.product((1, 2, 3), (0, 1, 2))))
def test_stores_that_may_be_unfinished(tiles, pending):
    """Right iff fewer stores may be unfinished than there are buffers."""
    assert right(sent(tiles, pending)) == (pending < tiles)


@mimw.jit
def copying(x_ptr, y_ptr, COMMIT: tl.constexpr, WAIT: tl.constexpr, ARRIVE: tl.constexpr, WAIT_FULL: tl.constexpr):
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


@states("async_load", "async_commit", "async_wait")
def copied(commit=True, wait=True, arrive=True, wait_full=True):
    x, y = np.ones((16, 32), np.float16), np.zeros((16, 32), np.float16)
    return copying, 1, (x, y, commit, wait, arrive, wait_full), {}


@rows("commit", "wait", "arrive", "wait_full")
def test_cp_async_for_another_task(commit, wait, arrive, wait_full):
    """Right iff the group is committed, waited for and told of, and the reader waits."""
    assert right(copied(commit, wait, arrive, wait_full)) == (commit and wait and arrive and wait_full)


@mimw.jit
def reading_ahead(x_ptr, y_ptr, STAGES: tl.constexpr, AHEAD: tl.constexpr, PENDING: tl.constexpr):
    """Five tiles by cp.async, AHEAD groups ahead, through STAGES buffers."""
    tiles = tlx.local_alloc((128, ), tl.float32, STAGES)
    at = tl.arange(0, 128)
    for step in tl.static_range(5 + AHEAD):
        if step < 5:
            tlx.async_load(x_ptr + step * 128 + at, tiles[step % STAGES])
        tlx.async_load_commit_group()
        if step >= AHEAD:
            tlx.async_load_wait_group(PENDING)
            tl.store(y_ptr + (step - AHEAD) * 128 + at, tlx.local_load(tiles[(step - AHEAD) % STAGES]))


@states("async_load", "async_commit", "async_wait")
def read_ahead(stages=3, ahead=2, pending=2):
    return reading_ahead, 1, (np.ones(640, np.float32), np.zeros(640, np.float32), stages, ahead, pending), {}


@pytest.mark.parametrize("stages, ahead, pending", list(itertools.product((2, 3), (1, 2), (0, 1, 2))))
def test_groups_that_may_be_unfinished(stages, ahead, pending):
    """Right iff no more groups may be unfinished than the loop is ahead, and it is ahead by less than there are buffers."""
    assert right(read_ahead(stages, ahead, pending)) == (pending <= ahead < stages)


@mimw.jit
def two_reading(x_desc, y_ptr, COUNT: tl.constexpr, FIRST: tl.constexpr, SECOND: tl.constexpr):
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


@states("alloc_barriers", "barrier_arrive")
def two_readers(count=2, first=True, second=True):
    x, y = np.ones((48, 32), np.float16), np.zeros((96, 32), np.float16)
    return two_reading, 1, (describe(x, [16, 32]), y, count, first, second), {}


@pytest.mark.parametrize("count, first, second", list(itertools.product((1, 2, 3), SWITCHES, SWITCHES)))
def test_arrive_counts(count, first, second):
    """Right iff both readers release and the barrier counts both."""
    assert right(two_readers(count, first, second)) == (count == 2 and first and second)


@mimw.jit
def looking_once(x_ptr, y_ptr, LOOK: tl.constexpr, WAIT: tl.constexpr, ARRIVE: tl.constexpr):
    """A reader looks whether the tile is there and waits for it if it is not; without LOOK it acts as if it were not."""
    tile = tlx.local_alloc((128, ), tl.float32, 1)
    full = tlx.alloc_barriers(1)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            there = tlx.barrier_try_wait(full[0], 0) if LOOK else tl.program_id(0) > 0
            if not there:
                if WAIT:
                    tlx.barrier_wait(full[0], 0)
            tl.store(y_ptr + tl.arange(0, 128), tlx.local_load(tile[0]))
        with tlx.async_task(num_warps=4):
            tlx.local_store(tile[0], tl.load(x_ptr + tl.arange(0, 128)))
            if ARRIVE:
                tlx.barrier_arrive(full[0])


@states("barrier_test", "barrier_wait", "barrier_arrive")
def looking(look=True, wait=True, arrive=True):
    x, y = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    return looking_once, 1, (x, y, look, wait, arrive), {}


@rows("look", "wait", "arrive")
def test_a_look_that_succeeds_is_a_wait(look, wait, arrive):
    """Right iff the writer arrives and the reader waits where the look said no: a look that said yes orders as a wait does."""
    assert right(looking(look, wait, arrive)) == (wait and arrive)


@mimw.jit
def each_thread(x_ptr, y_ptr, WARPS: tl.constexpr, ARRIVALS: tl.constexpr, ARRIVE: tl.constexpr, WAIT: tl.constexpr):
    """A writer of two warps whose threads all arrive, once or twice, on a barrier made for WARPS warps and ARRIVALS arrives."""
    tile = tlx.local_alloc((128, ), tl.float32, 1)
    full = tlx.alloc_warp_barrier(1, num_warps=WARPS, num_arrivals=ARRIVALS)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            if WAIT:
                tlx.barrier_wait(full[0], 0)
            tl.store(y_ptr + tl.arange(0, 128), tlx.local_load(tile[0]))
        with tlx.async_task(num_warps=2):
            tlx.local_store(tile[0], tl.load(x_ptr + tl.arange(0, 128)))
            if ARRIVE:
                tlx.barrier_arrive(full[0])


@states("alloc_barriers", "barrier_arrive", "barrier_wait")
def by_thread(warps=2, arrivals=1, arrive=True, wait=True):
    return each_thread, 1, (np.ones(128, np.float32), np.zeros(128, np.float32), warps, arrivals, arrive, wait), {}


@pytest.mark.parametrize("warps, arrivals, arrive, wait", list(itertools.product((1, 2, 4), (1, 2), SWITCHES, SWITCHES)))
def test_warp_barriers(warps, arrivals, arrive, wait):
    """Right iff the barrier counts the threads of two warps, the writer arrives and the reader waits."""
    assert right(by_thread(warps, arrivals, arrive, wait)) == (warps * arrivals == 2 and arrive and wait)


@mimw.jit
def meeting(x_ptr, y_ptr, ARRIVE: tl.constexpr, WAIT: tl.constexpr, THREADS: tl.constexpr):
    """One task writes, another reads, with a numbered hardware barrier between."""
    tile = tlx.local_alloc((16, 32), tl.float16, 1)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            at = tl.arange(0, 16)[:, None] * 32 + tl.arange(0, 32)[None, :]
            tlx.local_store(tile[0], tl.load(x_ptr + at))
            if ARRIVE:
                tlx.named_barrier_arrive(9, 256)
        with tlx.async_task(num_warps=4):
            here = tl.arange(0, 16)[:, None] * 32 + tl.arange(0, 32)[None, :]
            if WAIT:
                tlx.named_barrier_wait(9, THREADS)
            tl.store(y_ptr + here, tlx.local_load(tile[0]))


@states("named_barrier_arrive", "named_barrier_wait")
def named(arrive=True, wait=True, threads=256):
    x, y = np.ones((16, 32), np.float16), np.zeros((16, 32), np.float16)
    return meeting, 1, (x, y, arrive, wait, threads), {}


@pytest.mark.parametrize("arrive, wait, threads", list(itertools.product(SWITCHES, SWITCHES, (128, 256, 288))))
def test_named_barriers(arrive, wait, threads):
    """Right iff one side arrives, the other waits, and both count the threads of both."""
    assert right(named(arrive, wait, threads)) == (arrive and wait and threads == 256)


@mimw.jit
def among_warps(x_ptr, y_ptr, THREADS: tl.constexpr, ARRIVE: tl.constexpr):
    """Four warps write; one reads behind a numbered barrier to which another one comes, too."""
    tile = tlx.local_alloc((16, 32), tl.float16, 1)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            at = tl.arange(0, 16)[:, None] * 32 + tl.arange(0, 32)[None, :]
            tlx.local_store(tile[0], tl.load(x_ptr + at))
            if ARRIVE:
                tlx.named_barrier_arrive(14, THREADS)
            else:
                tlx.named_barrier_wait(14, THREADS)
        with tlx.async_task(num_warps=1):
            here = tl.arange(0, 16)[:, None] * 32 + tl.arange(0, 32)[None, :]
            tlx.named_barrier_wait(14, THREADS)
            tl.store(y_ptr + here, tlx.local_load(tile[0]))
        with tlx.async_task(num_warps=1):
            tlx.named_barrier_arrive(14, THREADS)


@pytest.mark.parametrize("arrive", SWITCHES)
@pytest.mark.parametrize("threads", [32, 64, 96, 192])
def test_named_barriers_that_cut_a_task(arrive, threads):
    """Right iff all six warps are one round; six, three or two rounds say nothing of who was in which."""
    x, y = np.ones((16, 32), np.float16), np.zeros((16, 32), np.float16)
    assert right((among_warps, 1, (x, y, threads, arrive), {})) == (threads == 192)


@mimw.jit
def by_themselves(x_ptr, y_ptr, THREADS: tl.constexpr):
    """Four warps at a barrier that is for fewer: nobody else is there, and what the task did stays in order."""
    tile = tlx.local_alloc((16, 32), tl.float16, 1)
    at = tl.arange(0, 16)[:, None] * 32 + tl.arange(0, 32)[None, :]
    tlx.local_store(tile[0], tl.load(x_ptr + at))
    tlx.named_barrier_wait(14, THREADS)
    tl.store(y_ptr + at, tlx.local_load(tile[0]))


@pytest.mark.parametrize("threads", [32, 64, 96, 128, 160])
def test_a_named_barrier_for_fewer_warps_than_the_task_has(threads):
    """Right iff the task's warps make up whole rounds."""
    x, y = np.ones((16, 32), np.float16), np.zeros((16, 32), np.float16)
    assert right((by_themselves, 1, (x, y, threads), {})) == (128 % threads == 0)


@mimw.jit
def around(x_ptr, y_ptr, WRITE: tl.constexpr, READ: tl.constexpr):
    """A tile written and read before (0), in the first (1) or second (2) task of, or after (3) a region."""
    tile = tlx.local_alloc((128, ), tl.float32, 1)
    at = tl.arange(0, 128)
    if WRITE == 0:
        tlx.local_store(tile[0], tl.load(x_ptr + at))
    if READ == 0:
        tl.store(y_ptr + at, tlx.local_load(tile[0]))
    with tlx.async_tasks():
        with tlx.async_task("default"):
            one = tl.arange(0, 128)
            if WRITE == 1:
                tlx.local_store(tile[0], tl.load(x_ptr + one))
            if READ == 1:
                tl.store(y_ptr + one, tlx.local_load(tile[0]))
        with tlx.async_task(num_warps=4):
            two = tl.arange(0, 128)
            if WRITE == 2:
                tlx.local_store(tile[0], tl.load(x_ptr + two))
            if READ == 2:
                tl.store(y_ptr + two, tlx.local_load(tile[0]))
    if WRITE == 3:
        tlx.local_store(tile[0], tl.load(x_ptr + at))
    if READ == 3:
        tl.store(y_ptr + at, tlx.local_load(tile[0]))


@states("warp_specialize")
def region(write=1, read=3):
    return around, 1, (np.ones(128, np.float32), np.zeros(128, np.float32), write, read), {}


@pytest.mark.parametrize("write, read", list(itertools.product(range(4), repeat=2)))
def test_regions_of_tasks(write, read):
    """Right iff the write comes first, and not in another task of the region than the read."""
    assert right(region(write, read)) == (write <= read and (write, read) != (1, 2))


@mimw.jit
def bulk(x_ptr, y_ptr, EXPECT: tl.constexpr, WAIT: tl.constexpr, FENCE: tl.constexpr, FINISH: tl.constexpr):
    """A line in by a bulk copy, one added, and out by another."""
    line = tlx.local_alloc((128, ), tl.float32, 1)
    full = tlx.alloc_barriers(1)
    tlx.barrier_expect_bytes(full[0], EXPECT)
    tlx.async_load(x_ptr, line[0], bulk=True, barrier=full[0])
    if WAIT:
        tlx.barrier_wait(full[0], 0)
    tlx.local_store(line[0], tlx.local_load(line[0]) + 1)
    if FENCE:
        tlx.fence("async_shared")
    tlx.async_store(y_ptr, line[0], 512)
    if FINISH:
        tlx.async_descriptor_store_wait(0)


@states("bulk_load", "bulk_store", "barrier_expect", "barrier_wait", "fence", "tma_store_wait")
def bulk_copied(expect=512, wait=True, fence=True, finish=True):
    return bulk, 1, (np.ones(128, np.float32), np.zeros(128, np.float32), expect, wait, fence, finish), {}


@pytest.mark.parametrize("expect, wait, fence, finish", list(itertools.product((256, 512, 528), *[SWITCHES] * 3)))
def test_bulk_copies(expect, wait, fence, finish):
    """Right iff the bytes are as expected and waited for, a fence follows the change, and the way out is waited for."""
    assert right(bulk_copied(expect, wait, fence, finish)) == (expect == 512 and wait and fence and finish)
