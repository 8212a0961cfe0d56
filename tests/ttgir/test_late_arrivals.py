"""Barriers on which cp.async arrives: a task copies, another one waits; the counts, and what the arrival does not tell."""

import numpy as np
import pytest
import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.amd.cdna5 import async_copy as amd_copy
from triton.experimental.gluon.language.amd.cdna5 import mbarrier as amd_barrier
from triton.experimental.gluon.language.nvidia.ampere import async_copy
from triton.experimental.gluon.language.nvidia.hopper import mbarrier

import mimw
from mimw.runtime.ttgir import compiled_launch

N, TRIPS = 512, 5
X = np.random.default_rng(6).standard_normal(TRIPS * N).astype(np.float32)


@gluon.jit
def fetched(x, tiles, full, free, notes, TRIPS: gl.constexpr, N: gl.constexpr, EARLY: gl.constexpr, NOTED: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
    at = gl.arange(0, N, layout)
    for i in range(TRIPS):
        mbarrier.wait(free.index(i % 2), i // 2 % 2 ^ 1)
        if EARLY:
            async_copy.mbarrier_arrive(full.index(i % 2), increment_count=False)
        async_copy.async_load(tiles.index(i % 2), x + i * N + at)
        if NOTED:
            notes.store(gl.full((N, ), 1.0, gl.float32, layout))
        if not EARLY:
            async_copy.mbarrier_arrive(full.index(i % 2), increment_count=False)
    async_copy.wait_group(0)


@gluon.jit
def summed(o, tiles, full, free, notes, TRIPS: gl.constexpr, N: gl.constexpr, EARLY: gl.constexpr, NOTED: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
    sums = gl.zeros((N, ), gl.float32, layout)
    for i in range(TRIPS):
        mbarrier.wait(full.index(i % 2), i // 2 % 2)
        sums += tiles.index(i % 2).load(layout)
        if NOTED:
            sums += notes.load(layout)
        mbarrier.arrive(free.index(i % 2), count=1)
    gl.store(o + gl.arange(0, N, layout), sums)


@gluon.jit
def in_tasks(x, o, TRIPS: gl.constexpr, N: gl.constexpr, COUNT: gl.constexpr, EARLY: gl.constexpr, NOTED: gl.constexpr):
    shared: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
    tiles = gl.allocate_shared_memory(gl.float32, [2, N], shared)
    notes = gl.allocate_shared_memory(gl.float32, [N], shared)
    full, free = mbarrier.allocate_mbarrier(batch=2), mbarrier.allocate_mbarrier(batch=2)
    for i in gl.static_range(2):
        mbarrier.init(full.index(i), count=COUNT)
        mbarrier.init(free.index(i), count=1)
    gl.warp_specialize([(summed, (o, tiles, full, free, notes, TRIPS, N, EARLY, NOTED)),
                        (fetched, (x, tiles, full, free, notes, TRIPS, N, EARLY, NOTED))], [4])


def by_tasks(count=128, early=False, noted=False):
    return mimw.check(in_tasks, (1, ), X, np.zeros(N, np.float32), TRIPS=TRIPS, N=N, COUNT=count, EARLY=early, NOTED=noted,
                      target="sm_90a", seeds=4, rounds=False, shrink=False, expected={"o": X.reshape(TRIPS, N).sum(0)})


def test_each_thread_arrives_when_its_copies_are_there():
    report = by_tasks()
    assert report.ok and "'o' as expected" in report.results


@pytest.mark.parametrize("how, kinds", [
    (dict(count=127), ["TooManyArrivals"]), (dict(count=129), ["TooFewArrivals", "WaitCycle"]),
    (dict(early=True), ["CopyReadEarly", "UnwrittenRead", "SlotReusedEarly"]), (dict(noted=True), ["DataRace", "UnwrittenRead"])])
def test_other_counts_and_what_the_arrival_does_not_tell(how, kinds):
    """An arrival in front of the copy is not the copy's, and a store of the thread is nothing that copies tell of."""
    assert by_tasks(**how).findings[0].kind in kinds


@gluon.jit
def alone(x, o, N: gl.constexpr, COUNT: gl.constexpr, RAISES: gl.constexpr, MORE: gl.constexpr, WAITS: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
    at = gl.arange(0, N, layout)
    tile = gl.allocate_shared_memory(gl.float32, [N], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    full = mbarrier.allocate_mbarrier()
    mbarrier.init(full, count=COUNT)
    async_copy.async_load(tile, x + at)
    async_copy.commit_group()
    if WAITS == 1:
        async_copy.wait_group(0)
    async_copy.mbarrier_arrive(full, increment_count=RAISES)
    if MORE:
        mbarrier.arrive(full, count=1)
    if WAITS == 2:
        async_copy.wait_group(0)
    if WAITS == 3:
        mbarrier.wait(full, 0)
    gl.store(o + at, tile.load(layout))
    mbarrier.wait(full, 0)


@pytest.mark.parametrize("count, raises, more, waits, right", [
    (128, False, False, 3, True), (1, True, True, 3, True), (128, True, False, 3, False), (1, True, True, 0, False),
    (128, False, False, 1, True), (128, False, False, 2, True), (129, False, True, 2, True)])
def test_the_phase_waits_for_as_many_more_or_counts_them(count, raises, more, waits, right):
    """Who copied may wait by the group as well, before or behind."""
    x, o = X[:N].copy(), np.zeros(N, np.float32)
    report = mimw.check(alone, (1, ), x, o, N=N, COUNT=count, RAISES=raises, MORE=more, WAITS=waits, target="sm_90a", seeds=4,
                        rounds=False, shrink=False, expected={"o": x})
    assert report.ok is right


def test_it_is_predicted():
    told = mimw.predict(in_tasks, (1, ), X, np.zeros(N, np.float32), TRIPS=TRIPS, N=N, COUNT=128, EARLY=False, NOTED=False,
                        target="sm_90a")
    assert 1000 < told.cycles < 10000


@gluon.jit
def on_amd(x, o, N: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
    at = gl.arange(0, N, layout)
    tile = gl.allocate_shared_memory(gl.float32, [N], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    full = gl.allocate_shared_memory(gl.int64, [1], amd_barrier.MBarrierLayout())
    amd_barrier.init(full, count=128)
    amd_copy.global_to_shared(tile, x + at)
    amd_copy.mbarrier_arrive(full)
    amd_barrier.wait(full, 0)
    gl.store(o + at, tile.load(layout))


def test_on_gfx1250_each_thread_is_one_arrival_too():
    x, o = torch.from_numpy(X[:N].copy()), torch.zeros(N)
    report = mimw.check(on_amd, (1, ), x, o, N=N, target="gfx1250", seeds=2, rounds=False, expected={"o": x.numpy()})
    assert report.ok and "'o' as expected" in report.results
    text = compiled_launch(on_amd, (1, ), (x, o), dict(N=N), "gfx1250")[1].text
    assert "amdg.async_copy_mbarrier_arrive" in text
    text = compiled_launch(alone, (1, ), (x, o), dict(N=N, COUNT=1, RAISES=True, MORE=True, WAITS=3), "sm_90a")[1].text
    assert "ttng.async_copy_mbarrier_arrive" in text
