"""Threads told apart: what each computes, which branches it takes, what it owns, and what it may not do alone."""

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.errors import OutOfBounds, SimulatorMisuse


@mimw.jit
def nested(y, z):
    thread = tlx.thread_id(0)
    value = 0
    if thread < 8:
        value = 1
        if thread % 2 == 0:
            value = thread * 10
    else:
        if thread == 40:
            tl.store(y + tl.arange(0, 64), tl.arange(0, 64) + 100)
    tl.store(z + tl.arange(0, 64), tl.zeros([64], tl.int32) + value)


def test_branches_within_branches():
    y, z = np.zeros(64, np.int32), np.zeros(64, np.int32)
    mimw.simulate(nested, (1, ), y, z, num_warps=2)
    assert (y == np.where(np.arange(64) == 40, 140, 0)).all()
    assert z.tolist() == [10 * t if t % 2 == 0 else 1 for t in range(8)] + 56 * [0]


@mimw.jit
def its_own_address(x, y, n):
    thread = tlx.thread_id(0)
    value = 0
    if thread < n:
        value = tl.load(x + thread)
    tl.store(y + tl.arange(0, 32), tl.zeros([32], tl.int32) + value)
    tl.store(y + 32, value)
    uniform = thread // 32
    for _ in range(uniform + 2):
        tl.store(y + 33, uniform + 7)


def test_each_thread_loads_for_itself():
    x, y = np.arange(1, 11, dtype=np.int32), np.zeros(34, np.int32)
    mimw.simulate(its_own_address, (1, ), x, y, 10, num_warps=1)
    assert y.tolist() == list(range(1, 11)) + 22 * [0] + [1, 7]
    with pytest.raises(OutOfBounds):
        mimw.simulate(its_own_address, (1, ), x, y, 11, num_warps=1)


@mimw.jit
def barrier_for_one(y):
    bars = tlx.alloc_barriers(1)
    if tlx.thread_id(0) == 0:
        tlx.barrier_arrive(bars[0])
    tl.store(y, 1)


@mimw.jit
def reduction_for_one(y):
    if tlx.thread_id(0) == 0:
        tl.store(y, tl.sum(tl.arange(0, 32)))


@mimw.jit
def loop_of_its_own(y):
    for step in range(tlx.thread_id(0)):
        tl.store(y, step)


@pytest.mark.parametrize("kernel, text", [
    (barrier_for_one, "barrier_arrive needs all threads of the task, but stands under an `if` that only some"),
    (reduction_for_one, "reduce needs all threads of the task"),
    (loop_of_its_own, "for takes a number that differs between the threads of the task"),
])
def test_what_a_thread_may_not_do_alone(kernel, text):
    with pytest.raises(SimulatorMisuse, match=text):
        mimw.simulate(kernel, (1, ), np.zeros(1, np.int32))


@mimw.jit
def whole_task(y):
    bars = tlx.alloc_barriers(1)
    if tlx.thread_id(0) < 128:
        tlx.barrier_arrive(bars[0])
    tlx.barrier_wait(bars[0], 0)
    tl.store(y, 1)


def test_a_condition_that_holds_for_all_is_none_of_a_thread():
    y = np.zeros(1, np.int32)
    mimw.simulate(whole_task, (1, ), y, num_warps=4)
    assert y[0] == 1


@pytest.mark.parametrize("mask, expected", [(0xFFFFFFFF, 0xF0F0F0F0), (0xFF, 0xF0)])
def test_a_masked_ballot(mask, expected):

    @mimw.jit
    def vote(y, LANES: tl.constexpr):
        tl.store(y, tlx.vote_ballot_sync(LANES, tlx.thread_id(0) & 4))

    y = np.zeros(1, np.int32)
    mimw.simulate(vote, (1, ), y, mask, num_warps=1)
    assert y.view(np.uint32)[0] == expected
