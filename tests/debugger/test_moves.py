"""Moves of a session: forward and back come to the same events, in the run that a simulation without a debugger makes."""

import random
import re
import signal
import threading
import time

import numpy as np
import pytest

import mimw
from mimw.errors import SimulatorMisuse, SlotReusedEarly, WaitCycle, WrongResult
from mimw.tools.debugger.events import LAND, OP, PHASE, WAIT
from tests.kernels import debugged
from tests.kernels.lines import line_of

LOAD = line_of(debugged.row_sums, "tile = tlx.local_load(ring[slot])")
COPY = line_of(debugged.row_sums, "tlx.async_descriptor_load(x")
WAITS = line_of(debugged.row_sums, "tlx.barrier_wait(full[slot], phase)")
TRIP = WAITS - 1


@pytest.fixture
def session():
    with debugged.session() as found:
        yield found


def lines(session, count, **how):
    """The lines to which so many `next` come."""
    found = []
    for _ in range(count):
        session.next(**how)
        found.append(int(re.search(r"-> +(\d+)", session.here())[1]))
    return found


def events(session):
    """The log of the whole run; the session stands at its beginning again."""
    session.goto(10 ** 6)
    session.goto(0)
    return session.log


@pytest.mark.parametrize("seed", [0, 3])
def test_the_run_is_the_one_without_a_debugger(seed):
    kernel, grid, args, meta = debugged.launch(-1)
    plain = mimw.simulate(kernel, grid, *args, **meta, seed=seed)
    with debugged.session(-1, seed=seed, races=False) as session:
        session.go()
        assert session.error is None and session.event is None
        assert session.player.machine.end == plain.cycles and session.player.machine.counts() == plain.counts
        assert (session["y"] == args[1]).all() and args[1].any()


def test_every_kind_of_event_has_its_number_forward_and_back(session):
    seen = [(str(session.here()), str(session.where()), str(session.barriers()), str(session.buffers()))]
    while session.event is not None:
        session.step()
        seen.append((str(session.here()), str(session.where()), str(session.barriers()), str(session.buffers())))
    assert {event.kind for event in session.log} == {OP, WAIT, LAND, PHASE} and len(seen) == len(session.log) + 1
    chosen = random.Random(7)
    for _ in range(12):
        number = chosen.randrange(len(seen))
        session.goto(number)
        assert session.number == number
        assert (str(session.here()), str(session.where()), str(session.barriers()), str(session.buffers())) == seen[number]
    session.goto(50)
    assert session.step(3, back=True) == seen[47][0] and session.step(3) == seen[50][0]


def test_arrays_go_back_with_the_run(session):
    session.stops.clear()
    session.goto(10 ** 6)
    assert session["y"].any()
    session.step(20, back=True)
    assert not session["y"].any()
    session.goto(10 ** 6)
    assert (session["y"] == 2 * np.arange(7 * 64, dtype=np.float32).reshape(7, 64).sum(0)).all()


def test_lines_of_one_task_past_what_they_call(session):
    session.go()
    assert session.event.op.name == "breakpoint" and session.actor == ((0, 0, 0), "add")
    ahead = lines(session, 6)
    assert ahead[:3] == [LOAD, LOAD + 2, LOAD + 3] and ahead[3] in (TRIP, TRIP - 1) and WAITS in ahead
    assert lines(session, 5, back=True) == ahead[-2::-1]


def test_the_next_line_behind_the_last_is_another_task(session):
    session.until(f"{COPY} if row == 6")
    while session.event is not None and session.actor[1] == "load":
        session.next()
    assert session.note == "task 'load' has finished" and session.actor[1] == "add"


def test_the_line_before_the_first_of_a_task_is_another_tasks(session):
    """`rn` undoes an `n` that came to another task; it does not go to the beginning of the run."""
    first = next(number for number, event in enumerate(events(session)) if event.actor != session.log[0].actor
                 and event.kind == OP)
    session.goto(first)
    session.next(back=True)
    assert session.number == first - 1


def test_until_a_line_a_barrier_a_task_a_wait(session):
    session.until(str(LOAD))
    assert session.event.op.site.line == LOAD and session["row"] == 0
    session.until(f"debugged.py:{LOAD}")
    assert session["row"] == 1
    session.until("full[1]")
    assert session.event[:1] == (PHASE, ) and session.event.what == "full[1]"
    session.until("full")
    assert session.event.what == "full[0]"
    session.phase()
    first = session.event
    assert first.kind == PHASE and first.what.startswith(("full", "free"))
    session.goto(0)
    session.until("wait add")
    assert session.event.kind == WAIT and session.event.task == "add" and "full" in session.event.what
    session.switch()
    assert session.event.kind == OP and session.actor[1] == "load"
    session.until("add")
    assert session.actor[1] == "add" and session.log[session.number - 1].actor != session.event.actor
    session.until("wait load")
    session.phase("full[0]", back=True)
    assert session.event.what == "full[0]"


def test_until_a_slot_is_written_and_back_to_who_wrote_it(session):
    session.go()
    session.until("ring[1]", back=True)
    assert session.event.kind == LAND and session.event.into == "ring[1]" and np.ma.is_masked(session["ring[1]"])
    session.step()
    assert session["ring[1].max()"] == 3 * 64 + 63
    session.until("ring")
    assert session.event.into == "ring[0]"
    assert str(session.place("ring[0] if row")) == "a write of ring[0] if row"


def test_conditions_forward_and_back(session):
    session.until(f"{LOAD} if row == 5")
    assert session["row"] == 5
    before = session.number
    session.until(f"{LOAD} if row in (1, 2)", back=True)
    assert session["row"] == 2 and session.number < before
    assert session.note == ""
    session.until(f"{LOAD} if nothing > 1")
    assert "'nothing' has no value here" in session.note and session["row"] == 3


def test_a_place_to_which_the_run_does_not_come(session):
    told = session.until(f"{LOAD} if row == 99")
    assert session.event is None and told.endswith(f"it did not come to line {LOAD} if row == 99 any more")


def test_stops_and_the_way_back_to_them(session):
    number = session.stop_at("free[0]")
    session.go()
    assert session.event.what == "free[0]" and session.event.phase == 0
    session.go()
    assert session.event.phase == 1
    session.go(back=True)
    assert session.event.phase == 0
    session.go(back=True)
    assert session.number == 0 and "the beginning" in session.note
    session.clear(number)
    session.go()
    assert session.event.op.name == "breakpoint"
    with pytest.raises(SimulatorMisuse, match="there is no stop 4"):
        session.clear(4)


@pytest.mark.parametrize("text", ["nobody", "full]", "wait nobody", ""])
def test_what_is_no_place(session, text):
    with pytest.raises(SimulatorMisuse, match="is no line, barrier, buffer or task"):
        session.until(text)


def test_a_race_ends_the_run_and_can_be_looked_at():
    with debugged.session(-1, "early") as session:
        assert "SlotReusedEarly" in session.go()
        assert isinstance(session.error, SlotReusedEarly) and session.event is None
        assert session.actor[1] == "load" and "ended the run at tma_load" in session.where()
        assert session["row"] == 2 and f"> {COPY:>4}" in session.source().replace("load >", ">")
        session.step(back=True)
        assert session.event.op.name == "tma_load" and session.error is None
        session.go()
        assert isinstance(session.error, SlotReusedEarly)


def test_a_deadlock_says_who_waits_since_when():
    with debugged.session(-1, "parity") as session:
        session.go()
        assert isinstance(session.error, WaitCycle) and "since event" in session.waits()
        assert "waits for parity 0 of 'free'[0]" in session.where() and "could have come from" in session.waits()


def test_a_finding_of_a_check_is_a_run(monkeypatch):
    kernel, grid, args, meta = debugged.launch(-1, "early")
    report = mimw.check(kernel, grid, *args, **meta, jobs=1)
    with mimw.debug(kernel, grid, *args, **meta, finding=report.findings[0]) as session:
        session.go()
        assert type(session.error).__name__ == report.findings[0].kind and session.launch.grid == tuple(report.findings[0].grid)


def test_a_wrong_result_ends_the_run_where_it_can_be_looked_at():
    kernel, grid, args, meta = debugged.launch(-1)
    right = 2 * args[0].base.array.sum(0)
    with mimw.debug(kernel, grid, *args, **meta, expected={"y": right}) as session:
        session.go()
        assert session.error is None and session.event is None
    with mimw.debug(kernel, grid, *args, **meta, expected={"y": right + 1}) as session:
        assert "WrongResult" in session.go() and isinstance(session.error, WrongResult)
        session.step(back=True)
        assert session.error is None and session.event is not None


def test_a_task_is_chosen(session):
    session.go()
    assert session["slot"] == 1
    row = session["row"]
    session.choose("load")
    assert session.actor[1] == "load" and session["row"] > row
    session.step()
    assert session.actor[1] == "add"
    with pytest.raises(SimulatorMisuse, match="has no task 'nobody' now"):
        session.choose("nobody")
    with pytest.raises(SimulatorMisuse, match="these CTAs run"):
        session.choose("load", (4, 0, 0))


def test_the_keyboard_stops_a_run_at_its_next_event(session):
    def interrupted(number, event):
        if number == 40:
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            end = time.monotonic() + 10
            while session.player._stop is interrupted and time.monotonic() < end:
                pass        # until the main thread has seen it
        return False

    before = signal.signal(signal.SIGINT, signal.default_int_handler)      # a shell's background jobs are born ignoring it
    try:
        session.player.go(interrupted)
    finally:
        signal.signal(signal.SIGINT, before)
    assert session.number == 41 and session.event is session.log[41]


def test_a_session_ends_with_its_last_reader():
    before = threading.active_count()
    session = debugged.session()
    assert threading.active_count() == before + 1
    del session
    assert threading.active_count() == before
