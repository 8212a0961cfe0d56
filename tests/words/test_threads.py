"""Words that tell threads apart: thread_id, clock64, vote_ballot_sync."""

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx


@mimw.jit
def one_writes(y_ptr, first_ptr, thread, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    if tlx.thread_id(0) == thread:
        tl.store(y_ptr + at, at + 1)
        tl.store(first_ptr, 5)
    tl.store(first_ptr + 1, 6)


@pytest.mark.parametrize("size, warps", [(32, 1), (128, 4)])
@pytest.mark.parametrize("thread", [0, 7, 31])
def test_a_thread_writes_what_it_owns(machine, size, warps, thread):
    y, first = np.zeros(size, np.int32), np.zeros(2, np.int32)
    machine.launch(one_writes, (1, ), y, first, thread, size, num_warps=warps)
    assert (y == np.where(np.arange(size) == thread, thread + 1, 0)).all()
    assert first.tolist() == [5 if thread == 0 else 0, 6]


@mimw.jit
def in_tasks(y_ptr):
    with tlx.async_tasks():
        with tlx.async_task("default"):
            if tlx.thread_id(0) == 0:
                tl.store(y_ptr, 1)
        with tlx.async_task(num_warps=1):
            if tlx.thread_id(0) == 320:  # behind two of the three idle warps that fill its group of four
                tl.store(y_ptr + 1, 2)
        with tlx.async_task(num_warps=4):
            if tlx.thread_id(0) == 128:
                tl.store(y_ptr + 2, 3)
            if tlx.thread_id(0) // 128 == 1:
                tl.store(y_ptr + 3, 4)
            if tlx.thread_id(0) == 0:
                tl.store(y_ptr + 4, 5)


def test_threads_count_through_the_cta(machine):
    y = np.zeros(5, np.int32)
    machine.launch(in_tasks, (1, ), y)
    assert y.tolist() == [1, 2, 3, 4, 0]


@mimw.jit
def vote(y_ptr, z_ptr, limit, SIZE: tl.constexpr, LANES: tl.constexpr):
    at = tl.arange(0, SIZE)
    tl.store(y_ptr + at, tlx.vote_ballot_sync(LANES, at < limit))
    tl.store(z_ptr, tlx.vote_ballot_sync(LANES, limit))
    tl.store(z_ptr + 1, tlx.vote_ballot_sync(LANES, tlx.thread_id(0) % 2 == 0))


@pytest.mark.parametrize("size, warps", [(16, 1), (32, 1), (128, 1), (128, 4)])
@pytest.mark.parametrize("lanes", [0xFFFFFFFF])
def test_ballots(machine, size, warps, lanes):
    limit, y, z = 11, np.zeros(size, np.int32), np.zeros(2, np.int32)
    machine.launch(vote, (1, ), y, z, limit, size, lanes, num_warps=warps)
    owned = np.resize(np.arange(size) < limit, max(size, 32 * warps)).reshape(-1, warps, 32).any(axis=0)
    ballots = (owned.astype(np.uint64) << np.arange(32, dtype=np.uint64)).sum(axis=1).astype(np.uint32).view(np.int32)
    assert (y == ballots[np.arange(size) % (32 * warps) // 32]).all()
    assert z.tolist() == [-1, 0x55555555]


@mimw.jit
def time_passes(y_ptr, x_ptr):
    before = tlx.clock64()
    tl.store(y_ptr + 2, tl.load(x_ptr))
    after = tlx.clock64()
    tl.store(y_ptr, before)
    tl.store(y_ptr + 1, after)


def test_the_clock_goes_on(machine):
    y = np.zeros(3, np.int64)
    machine.launch(time_passes, (1, ), y, np.ones(1, np.int64), num_warps=1)
    assert y[1] > y[0] and y[2] == 1


@mimw.jit
def vote_of_a_tile(x_ptr, y_ptr, LAYOUT: tl.constexpr):
    at = tl.arange(0, 128)[:, None] * 4 + tl.arange(0, 4)[None, :]
    tile = tlx.require_layout(tl.load(x_ptr + at), LAYOUT)
    tl.store(y_ptr + at, tlx.vote_ballot_sync(0xFFFFFFFF, tile > 0))


@pytest.mark.parametrize("shape, stride, owners", [
    (((32, 4), (4, )), ((4, 128), (1, )), "row"),                   # a lane a row, a warp 32 of them
    (((4, 8, 4), (4, )), ((1, 4, 32), (128, )), "one by one"),      # thread t has element t, t + 128, ..
])
def test_ballots_go_by_the_layout(machine, shape, stride, owners):
    x, y = np.zeros((128, 4), np.int32), np.zeros((128, 4), np.int32)
    x[5, 3] = x[40, 0] = 1
    machine.launch(vote_of_a_tile, (1, ), x, y, tlx.layout(shape=shape, stride=stride))
    if owners == "row":
        assert (y == np.repeat([1 << 5, 1 << 8, 0, 0], 32)[:, None]).all()
    else:
        threads = np.flatnonzero(x.reshape(-1)) % 128
        ballots = [sum(1 << int(thread % 32) for thread in threads if thread // 32 == warp) for warp in range(4)]
        wanted = np.array(ballots, np.uint32).view(np.int32)[np.arange(512) % 128 // 32]
        assert (y.reshape(-1) == wanted).all()
