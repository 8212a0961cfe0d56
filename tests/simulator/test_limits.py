"""Loops that never end, or take more trips than a simulation can: an error with the loop's line, soon."""

import numpy as np
import pytest
import triton.language as tl

import mimw
from mimw import tlx
from mimw.errors import Deadlock, EndlessLoop, Livelock, SimulatorMisuse


@mimw.jit
def waits_for_a_flag(x, y, VOLATILE: tl.constexpr):
    flag = tl.load(x)
    while flag == 0:  # loop
        flag = tl.load(x, volatile=VOLATILE)
    tl.store(y, flag)


@mimw.jit
def nested(x, n):
    total = 0
    for i in range(n):  # outer
        for j in range(n):  # loop
            total += j
    tl.store(x, total)


@mimw.jit
def counts_up(x, n):
    i = 0
    while i < n:  # loop
        i += 1
    tl.store(x, i)


@mimw.jit
def steps_by(x, step):
    for i in range(0, 10, step):  # loop
        tl.store(x, i)


@mimw.jit
def asks_for_ever(x):
    """Every trip changes memory, so it is no spin that the machine could tell."""
    bars = tlx.alloc_barriers(1)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            i = 1
            while i > 0:  # loop
                tlx.barrier_arrive(bars[0])
                i += tl.atomic_add(x, 1) * 0
        with tlx.async_task(num_warps=1):
            tlx.barrier_wait(bars[0], 0)


def lines_of(error) -> list[str]:
    return [line.partition("# ")[2] for line in str(error).splitlines() if "# " in line]


def ints(value: int = 0) -> np.ndarray:
    return np.full(1, value, np.int32)


def test_a_while_loop_that_changes_nothing_is_found_at_once():
    with pytest.raises(EndlessLoop, match="never ends: a trip writes nothing, and leaves 'flag' as it was") as caught:
        mimw.simulate(waits_for_a_flag, (1, ), ints(), ints(), VOLATILE=False)
    assert lines_of(caught.value) == ["loop"] and "volatile=True" in str(caught.value)


def test_a_spin_on_memory_is_a_livelock_with_the_loops_line():
    with pytest.raises(Livelock, match="in the loop at .*test_limits.py") as caught:
        mimw.simulate(waits_for_a_flag, (1, ), ints(), ints(), VOLATILE=True)
    assert lines_of(caught.value) == ["loop"] and not isinstance(caught.value, EndlessLoop)


@pytest.mark.parametrize("volatile", [False, True])
def test_a_flag_that_is_set_is_no_loop(volatile):
    out = ints()
    mimw.simulate(waits_for_a_flag, (1, ), ints(7), out, VOLATILE=volatile)
    assert out[0] == 7


@pytest.mark.parametrize("kernel, n", [(nested, 1 << 30), (nested, 40), (counts_up, 1001)])
def test_more_trips_than_the_limit(kernel, n, monkeypatch):
    monkeypatch.setenv("MIMW_MAX_TRIPS", "1000")
    with pytest.raises(EndlessLoop, match="more than the 1000 that a task may take") as caught:
        mimw.simulate(kernel, (1, ), ints(), n)
    assert lines_of(caught.value) == {nested: ["loop", "outer"] if n == 40 else ["outer"], counts_up: ["loop"]}[kernel]
    assert "MIMW_MAX_TRIPS" in caught.value.hint


def test_as_many_trips_as_the_limit(monkeypatch):
    monkeypatch.setenv("MIMW_MAX_TRIPS", "1000")
    out = ints()
    mimw.simulate(counts_up, (3, ), out, 1000)      # each CTA has its own
    assert out[0] == 1000
    mimw.simulate(nested, (1, ), out, 30)
    assert out[0] == 30 * sum(range(30))


def test_a_loop_that_others_may_step_into_is_counted_as_well(monkeypatch):
    monkeypatch.setenv("MIMW_MAX_TRIPS", "200")
    with pytest.raises(Deadlock, match="this loop has not ended") as caught:
        mimw.simulate(asks_for_ever, (1, ), ints())
    assert lines_of(caught.value) == ["loop"]


def test_a_step_of_zero():
    with pytest.raises(EndlessLoop, match="the step of this loop is 0"):
        mimw.simulate(steps_by, (1, ), ints(), 0)
    out = ints()
    mimw.simulate(steps_by, (1, ), out, 3)
    assert out[0] == 9


def test_a_negative_step_that_only_the_launch_knows():
    """The GPU goes on while i < end."""
    with pytest.raises(EndlessLoop, match="the step of this loop is -3"):
        mimw.simulate(steps_by, (1, ), ints(), -3)


@pytest.mark.parametrize("limit", ["0", "many", "-3"])
def test_the_limit_is_a_number(limit, monkeypatch):
    monkeypatch.setenv("MIMW_MAX_TRIPS", limit)
    with pytest.raises(SimulatorMisuse, match=f"MIMW_MAX_TRIPS={limit} should be a number of loop trips"):
        mimw.simulate(steps_by, (1, ), ints(), 3)


def test_check_reports_it_with_the_line():
    (finding, ) = mimw.check(waits_for_a_flag, (1, ), ints(), ints(), VOLATILE=False, seeds=2).findings
    assert finding.kind == "EndlessLoop" and "Livelock" in finding.kinds and len(finding.sites) == 1
