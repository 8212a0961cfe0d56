"""How far a check is, and a limit of its time: what is told when, and what the report says of what did not run."""

import time

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.cli import main
from mimw.errors import SimulatorMisuse
from mimw.tools.search import Meter, search
from tests.kernels import tma_pipeline
from tests.kernels.tma_pipeline import pipeline, pipeline_arguments

KERNELS = tma_pipeline.__file__


class Clock:
    """A clock that a test moves."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


class Machine:
    """What the meter looks at, of a machine."""

    step, begun, ctas = 500, 3, {1: None, 2: None}


def test_nothing_is_told_before_two_seconds_and_then_once_a_second():
    clock, told = Clock(), []
    meter = Meter(told.append, clock)
    for now, run in ((101.9, 1), (102.0, 2), (102.9, 3), (103.1, 4)):
        clock.now, meter.operations = now, 1000 * run
        meter(run, 8, 0)
    assert told == ["2 of 8 runs, 1,000 operations/s, about 6 s left", "4 of 8 runs, 1,290 operations/s, about 3 s left"]


def test_the_last_run_has_nothing_left_and_findings_are_told():
    clock, told = Clock(), []
    meter = Meter(told.append, clock)
    clock.now += 4
    meter(8, 8, 2)
    assert told == ["8 of 8 runs, 2 found, 0 operations/s"]


def test_a_long_run_tells_from_within():
    clock, told = Clock(), []
    meter = Meter(told.append, clock)
    meter.inside(Machine(), 4, 2)
    clock.now += 5
    meter.inside(Machine(), 4, 2)       # one of four CTAs has ended
    assert told == ["0 of 2 runs, 100 operations/s, about 35 s left"]


def test_the_command_tells_on_stderr(monkeypatch, capsys):
    monkeypatch.setattr("mimw.tools.search.meter.QUIET", 0.0)
    monkeypatch.setattr("mimw.tools.search.meter.BETWEEN", 0.0)
    assert main(["check", f"{KERNELS}:released_before_the_wait", "--seeds", "3", "--jobs", "1", "--mend-time", "0"]) == 1
    told = capsys.readouterr().err.splitlines()
    assert any(line.startswith("mimw: 3 of 3 runs, 1 found, ") and line.endswith("operations/s") for line in told)
    assert any("about" in line and line.endswith("s left") for line in told)


def test_a_short_check_tells_nothing(capsys):
    assert main(["check", f"{KERNELS}:released_before_the_wait", "--seeds", "1", "--mend-time", "0"]) == 1
    assert not capsys.readouterr().err


# ---- a limit ----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def slow(monkeypatch):
    """Every run takes a fifth of a second."""
    real = search.run

    def run(*args, **options):
        time.sleep(0.2)
        return real(*args, **options)

    monkeypatch.setattr(search, "run", run)


@mimw.jit
def stored(x_ptr):
    tlx.clock64()
    tl.store(x_ptr + tl.program_id(0) * 16 + tl.arange(0, 16), 1.0)


@pytest.mark.parametrize("jobs", [1, 2])
def test_no_run_starts_after_the_limit(slow, jobs):
    begun = time.monotonic()
    report = mimw.check(stored, (2, ), np.zeros(32, np.float32), seeds=1000, time_limit=1.0, jobs=jobs)
    assert time.monotonic() - begun < 60
    assert 1 <= report.runs < 1000 and report.ok and not report.complete
    assert report.stopped == f"{report.runs} of 1000 seeds ran within 1 s"
    assert f"not complete: nothing found in {report.runs} runs" in str(report)
    assert f"\nnot complete: {report.stopped}" in str(report)
    assert "ok:" not in str(report) and report.as_json()["stopped"] == report.stopped


def test_the_first_run_is_always_made_and_smaller_launches_are_named_if_not():
    grid, args, meta = pipeline_arguments()
    report = mimw.check(pipeline, grid, *args, seeds=1, time_limit=1e-9, **meta)
    assert report.runs == 1 and report.stopped.startswith("none of ") and report.stopped.endswith("smaller launches within 1e-09 s")
    assert report.untried == "the time limit was over" and not report.tried


def test_what_was_found_is_reported_as_it_was_found():
    grid, args, meta = pipeline_arguments(RELEASE_FIRST=True)
    report = mimw.check(pipeline, grid, *args, time_limit=1e-9, **meta)
    (finding, ) = report.findings
    assert finding.kind == "OperandOverwritten" and not finding.sizes and report.stopped == "1 of 8 seeds ran within 1e-09 s"
    assert "not complete: 1 found in 1 run" in str(report)


def test_a_search_through_schedules_is_cut_off(slow):
    grid, args, meta = pipeline_arguments()
    report = mimw.check(stored, (2, ), np.zeros(32, np.float32), search="both", seeds=1, time_limit=1e-9)
    assert report.stopped == "no schedule was tried within 1e-09 s" and not report.complete


def test_within_the_limit_nothing_is_said():
    report = mimw.check(stored, (2, ), np.zeros(32, np.float32), time_limit=600)
    assert report.stopped == "" and str(report).startswith("ok: nothing found in 8 runs") and "complete" not in str(report)


@pytest.mark.parametrize("limit", [0, -1, float("nan")])
def test_a_limit_is_a_time(limit):
    with pytest.raises(SimulatorMisuse, match="time_limit is .*; it may be a number of seconds above 0"):
        mimw.check(stored, (2, ), np.zeros(32, np.float32), time_limit=limit)


def test_the_command_takes_a_limit(capsys):
    assert main(["check", f"{KERNELS}:right_pipeline", "--time-limit", "0.000001", "--no-rounds"]) == 0
    assert "not complete: 1 of 8 seeds ran within 1e-06 s" in capsys.readouterr().out
    assert main(["check", f"{KERNELS}:right_pipeline", "--time-limit", "0"]) == 2
