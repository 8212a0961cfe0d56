"""Loops of `tle.dsa`: values are those of the loop in its order, what runs ahead does, and what may not says why."""

from functools import partial

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tle as tle
from mimw.runtime.simulate import prepare
from mimw.testing.machines import Gpu
from mimw.tools.explain.loops import own_loop_text
from tests.compiling import to_assembly

UB = tle.dsa.ascend.UB


@pytest.fixture(params=["sm_90a", "ascend_910b", pytest.param("gpu", marks=pytest.mark.gpu)])
def launch(request):
    return Gpu().launch if request.param == "gpu" else partial(mimw.simulate, target=request.param, races=True)


@mimw.jit
def steps(x, y, first, last, by, STAGES: tl.constexpr, INSIDE: tl.constexpr):
    """y[i] = the sum of x's blocks so far, by pointers that the loop carries; the buffer is made in the loop or around it."""
    at = tl.arange(0, 64)
    here = x + first * 64 + at
    total = tl.zeros([64], tl.int32)
    around = tle.dsa.alloc([64], tl.int32, UB)
    for i in tle.dsa.pipeline(first, last, by, num_stages=STAGES):
        a = around
        if INSIDE:
            a = tle.dsa.alloc([64], tl.int32, UB)
        tle.dsa.copy(here, a, [64], inter_no_alias=True)
        tle.dsa.add(a, a, a)
        total += tle.dsa.to_tensor(a)
        tl.store(y + i * 64 + at, total)
        here += by * 64


@pytest.mark.parametrize("first, last, by, stages, inside", [(0, 7, 1, 2, False), (1, 8, 3, 3, True), (2, 2, 1, 4, False)])
def test_carried_pointers_run_ahead(launch, first, last, by, stages, inside):
    x, y = np.arange(512, dtype=np.int32), np.zeros(512, np.int32)
    launch(steps, (1, ), x, y, first, last, by, stages, inside)
    expected, total = np.zeros((8, 64), np.int32), 0
    for i in range(first, last, by):
        expected[i] = total = total + 2 * x.reshape(8, 64)[i]
    np.testing.assert_array_equal(y.reshape(8, 64), expected)


@mimw.jit
def promised(x, y, n):
    at = tl.arange(0, 64)
    a = tle.dsa.alloc([50], tl.float32, UB)
    for i in tle.dsa.pipeline(0, 3, num_stages=2):
        tle.dsa.copy(x + i * 50 + at, a, [n - 7 * i], inter_no_alias=True)
        tle.dsa.copy(a, y + i * 50 + at, [n])


@mimw.jit
def alone(x, y, n):
    at = tl.arange(0, 64)
    a = tle.dsa.alloc([50], tl.float32, UB)
    for i in tle.dsa.pipeline(0, 3, num_stages=2):
        tle.dsa.copy(x + i * 50 + at, a, [n - 7 * i])
        tle.dsa.copy(a, y + i * 50 + at, [n])


@pytest.mark.parametrize("kernel", [promised, alone])
def test_what_a_tail_leaves_comes_from_the_trip_before(launch, kernel):
    x, y = np.arange(256, dtype=np.float32), np.zeros(256, np.float32)
    launch(kernel, (1, ), x, y, 50)
    expected, buffer = np.zeros(256, np.float32), np.zeros(50, np.float32)
    for i in range(3):
        buffer[:50 - 7 * i] = x[i * 50:i * 50 + 50 - 7 * i]
        expected[i * 50:i * 50 + 50] = buffer
    np.testing.assert_array_equal(y, expected)


@mimw.jit
def prefix_sums(x):
    """x[i + 1] += x[i], block by block: each trip loads what the one before has stored."""
    at = tl.arange(0, 64)
    a = tle.dsa.alloc([64], tl.float32, UB)
    b = tle.dsa.alloc([64], tl.float32, UB)
    for i in tle.dsa.pipeline(0, 5, num_stages=3):
        tle.dsa.copy(x + i * 64 + at, a, [64])
        tle.dsa.copy(x + i * 64 + 64 + at, b, [64])
        tle.dsa.add(a, b, b)
        tle.dsa.copy(b, x + i * 64 + 64 + at, [64])


def test_a_store_that_aliases_keeps_its_place(launch):
    x = np.ones(384, np.float32)
    launch(prefix_sums, (1, ), x)
    np.testing.assert_array_equal(x.reshape(6, 64)[:, 0], np.arange(1, 7))


@mimw.jit
def reasons(x, y, i, n, WHICH: tl.constexpr):
    at = tl.arange(0, 64)
    a = tle.dsa.alloc([64], tl.float32, UB)
    where = n
    for k in tle.dsa.pipeline(0, 4):
        if WHICH == "loaded":
            tle.dsa.copy(x + tl.load(i + k) + at, a, [64])
        elif WHICH == "before":
            tl.store(y + at, 1.0)
            tle.dsa.copy(x + at, a, [64], inter_no_alias=True)
        elif WHICH == "branch":
            if n > 3:
                tle.dsa.copy(x + at, a, [64])
        elif WHICH == "atomic":
            tl.atomic_add(i, 1)
            tle.dsa.copy(x + at, a, [64])
        elif WHICH == "divided":
            tle.dsa.copy(x + n // (4 - k) + at, a, [64])
        else:
            tle.dsa.copy(x + where + at, a, [64])
            where = where * 2 + k // 3


@pytest.mark.parametrize("which, why", [
    ("loaded", "follows from load at line"), ("before", "stores before the copy"), ("branch", "under an `if` or in a loop inside"),
    ("atomic", "keeps its place among"), ("divided", "follows from sdiv at line"), ("computed", "")])
def test_why_a_loop_runs_in_order(which, why):
    x, y, i = np.ones(512, np.float32), np.ones(512, np.float32), np.zeros(8, np.int32)
    program = prepare(reasons, (1, ), (x, y, i, 4, which), {}).program
    (loop, ) = program.named("for")
    text = own_loop_text(program)
    assert text.startswith(str(loop.site))
    if why:
        assert "in order: " in text and why in text and "ahead" not in loop.attrs
    else:
        assert text.endswith("copies run 1 trip ahead")


@mimw.jit
def hints(x, y, OUTER: tl.constexpr):
    at = tl.arange(0, 64)
    a = tle.dsa.alloc([64], tl.float32, UB)
    with tle.dsa.hint(inter_no_alias=OUTER, whatever=3):
        with tle.dsa.hint(inter_no_alias=not OUTER):
            tle.dsa.copy(x + at, a, [64])
            tle.dsa.copy(x + at, a, [64], inter_no_alias=OUTER)
        tle.dsa.copy(x + at, a, [64])
    tle.dsa.copy(x + at, a, [64])
    tle.dsa.copy(a, y + at, [64])


@pytest.mark.parametrize("outer", [True, False])
def test_the_innermost_hint_wins_and_the_argument_before_it(outer):
    x = np.ones(64, np.float32)
    recorded = prepare(hints, (1, ), (x, x, outer), {}).recorded
    assert [bool(op.attrs.get("inter_no_alias")) for op in recorded.named("dsa_load")] == [not outer, outer, outer, False]


@mimw.jit
def trips(x, y, n):
    at = tl.arange(0, 64)
    a = tle.dsa.alloc([64], tl.float32, UB)
    for i in tle.dsa.parallel(0, n, num_stages=2):
        tle.dsa.copy(x + i * 64 + at, a, [64])
        tle.dsa.mul(a, a, a)
        tle.dsa.copy(a, y + i * 64 + at, [64])


def test_parallel_trips_need_no_other_promise(launch):
    x, y = np.arange(256, dtype=np.float32), np.zeros(256, np.float32)
    launch(trips, (1, ), x, y, 4)
    np.testing.assert_array_equal(y, x * x)


def test_copies_that_run_ahead_are_asynchronous_in_the_binary():
    """One group before the loop, one in it; and the timeline has them on a lane of their own."""
    aligned = {(i, ): [["tt.divisibility", 16]] for i in range(3)}
    ptx = to_assembly(trips, {"x": "*fp32", "y": "*fp32", "n": "i32"}, {}, attrs=aligned).stage("ptx")
    assert ptx.count("cp.async.commit_group") == 2 and "cp.async.wait_group" in ptx and "cp.async.ca.shared.global" in ptx
    x, y = np.ones(256, np.float32), np.ones(256, np.float32)
    run = mimw.simulate(trips, (1, ), x, y, 4, trace=True, target="ascend_910b")
    copies = [event for event in run.trace.events if event.kind == "copy"]
    assert len(copies) == 4
