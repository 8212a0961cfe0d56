"""Tasks, barriers and buffers that a loop makes anew: the memory model says of them what it says of those made once, though a task
goes on with the strand of one before it, and a barrier with the lane of one before it, where that one is known to be over."""

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.runtime.simulate import prepare
from mimw.simulator import run, watching
from tests.kernels.made_anew import WIDTH, everything, of_everything


@mimw.jit
def groups(source, out, WIDTH: tl.constexpr, WAITED: tl.constexpr):
    """out = the sum of two rows, each copied by a task of its own. WAITED: each waits for its group; otherwise only the second."""
    rows = tlx.local_alloc((WIDTH, ), tl.float32, 2)
    for i in range(2):
        with tlx.async_tasks():
            with tlx.async_task("default"):
                tlx.named_barrier_wait(9, 256)
            with tlx.async_task(num_warps=4):
                tlx.async_load(source + i * WIDTH + tl.arange(0, WIDTH), rows[i])
                tlx.async_load_commit_group()
                if WAITED or i > 0:
                    tlx.async_load_wait_group(0)
                tlx.named_barrier_wait(9, 256)
    tl.store(out + tl.arange(0, WIDTH), tlx.local_load(rows[0]) + tlx.local_load(rows[1]))


@mimw.jit
def lanes(x_desc, out, trips, WIDTH: tl.constexpr, WAITED: tl.constexpr):
    """A barrier a trip, on which a row lands. Not WAITED: the first trip's barrier is not waited for, those behind it are."""
    rows, elsewhere = tlx.local_alloc((1, WIDTH), tl.float32, 4), tlx.local_alloc((1, WIDTH), tl.float32, 1)
    for i in range(trips):
        landed = tlx.alloc_barriers(1)
        tlx.barrier_expect_bytes(landed[0], 4 * WIDTH)
        tlx.async_descriptor_load(x_desc, rows[i % 4], [i, 0], landed[0])
        if WAITED or i > 0:
            tlx.barrier_wait(landed[0], 0)
        if i == 2:
            tl.store(out + tl.arange(0, WIDTH)[None, :], tlx.local_load(rows[0]))
        for _ in range(4):
            tlx.local_store(elsewhere[0], tl.zeros((1, WIDTH), tl.float32))     # meanwhile the row may land
        tlx.fence("async_shared")


def of_groups(waited):
    source, out = np.random.default_rng(0).integers(0, 9, (2, WIDTH)).astype(np.float32), np.zeros(WIDTH, np.float32)
    return source.sum(0), out, (source, out), dict(WIDTH=WIDTH, WAITED=waited)


def of_lanes(waited, trips=5):
    x, out = np.random.default_rng(0).integers(0, 9, (trips, WIDTH)).astype(np.float32), np.zeros(WIDTH, np.float32)
    return x[0], out, (mimw.TensorDescriptor.from_tensor(x, [1, WIDTH]), out, trips), dict(WIDTH=WIDTH, WAITED=waited)


MADE_ANEW = pytest.mark.parametrize("kernel, launch", [(groups, of_groups), (lanes, of_lanes)], ids=["tasks", "barriers"])


@MADE_ANEW
def test_copies_of_what_is_made_anew(kernel, launch):
    wanted, out, args, meta = launch(True)
    mimw.simulate(kernel, 1, *args, **meta)
    assert (out == wanted).all()
    report = mimw.check(kernel, 1, *args, **meta)
    assert report.ok, report


@MADE_ANEW
@pytest.mark.parametrize("seed", range(8))
def test_a_later_wait_is_not_for_an_earlier_copy(kernel, launch, seed):
    """Of a later task, and of a later barrier's phase."""
    _, _, args, meta = launch(False)
    report = mimw.check(kernel, 1, *args, seeds=[seed], shrink=False, **meta)
    assert {finding.kind for finding in report.findings} <= {"DataRace", "CopyReadEarly"} and not report.ok


def test_clocks_do_not_grow():
    """Others take the strands of tasks, barriers and groups of copies that are over: in 5 trips as in 40 there are as many."""
    strands = []
    for trips in (5, 40):
        args, out = of_everything(trips)
        launch = prepare(everything, (1, ), args, dict(WIDTH=WIDTH))
        clocks = []

        def watch(machine):
            leave = machine.order.leave
            machine.order.leave = lambda cluster: (clocks.append(dict(cluster.ctas[0].tasks[0].strand.clock)), leave(cluster))

        token = watching.set(watch)
        try:
            run(launch.program, launch.grid, launch.values, races=True)
        finally:
            watching.reset(token)
        assert (out == trips).all()
        strands.append(len(clocks[0]))
    assert strands[0] == strands[1] > 4, strands


def test_everything_made_anew_is_right():
    args, _ = of_everything(4)
    report = mimw.check(everything, 1, *args, WIDTH=WIDTH)
    assert report.ok, report
