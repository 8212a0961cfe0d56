"""`breakpoint()` in a kernel: a simulated launch stops there with a prompt; a compiled kernel, and a check, know nothing of it."""

import io
import re
import sys
import time

import numpy as np
import pytest
import triton.language as tl

import mimw
from mimw.cli import progress
from mimw.errors import SlotReusedEarly
from mimw.runtime import breakpoints
from tests.compiling import to_ttgir
from tests.kernels import debugged


@mimw.jit
def tile_of(x, at):
    tile = tl.load(x + at)
    if tl.program_id(0) == 1:
        breakpoint()
    return tile


@mimw.jit
def plain(x, y, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(y + at, tile_of(x, at) + 1)


@mimw.jit
def wrong(x):
    breakpoint(1)


@pytest.fixture
def typed(monkeypatch):
    """A function that says what the prompt will read."""
    monkeypatch.delenv("PYTHONBREAKPOINT", raising=False)
    return lambda text: monkeypatch.setattr(sys, "stdin", io.StringIO(text))


def arrays():
    return np.arange(256, dtype=np.float32), np.zeros(256, np.float32)


def test_a_launch_stops_and_goes_on(typed, capsys):
    typed("p tl.constexpr\np tile[:2], N\nc\n")
    x, y = arrays()
    run = mimw.simulate(plain, (2, ), x, y, 128, trace=True)
    told = capsys.readouterr().out
    assert "task 'default' of CTA (1, 0, 0) is about to do breakpoint at test_breakpoint.py" in told and "128" in told
    assert (y == x + 1).all() and run.cycles > 0 and run.trace.events and run.counts["breakpoint"] == 1
    assert told.count("(mimw) ") == 3


def test_so_does_a_launch_by_brackets(typed, capsys, monkeypatch):
    monkeypatch.setenv("MIMW_SIMULATE", "1")
    typed("w\nc\n")
    x, y = arrays()
    plain[(2, )](x, y, 128)
    assert "> default" in capsys.readouterr().out and (y == x + 1).all()


@pytest.mark.parametrize("text", ["q\n", ""])
def test_whoever_leaves_ends_the_launch(typed, text):
    typed(text)
    x, y = arrays()
    with pytest.raises(KeyboardInterrupt, match="left before the launch had ended"):
        mimw.simulate(plain, (2, ), x, y, 128)


def test_an_error_behind_it_is_looked_at_and_raised(typed, capsys):
    typed("c\np row\nrs\nc\nc\n")
    kernel, grid, args, meta = debugged.launch(0, "early")
    with pytest.raises(SlotReusedEarly):
        mimw.simulate(kernel, grid, *args, **meta, races=True)
    told = capsys.readouterr().out
    assert told.count("the run has ended") == 2 and "is about to do tma_load" in told


def test_no_launch_stops_where_python_would_not(monkeypatch):
    monkeypatch.setenv("PYTHONBREAKPOINT", "0")
    x, y = arrays()
    mimw.simulate(plain, (2, ), x, y, 128)
    assert (y == x + 1).all()


def test_checks_predictions_and_compilations_do_not_stop(monkeypatch):
    monkeypatch.delenv("PYTHONBREAKPOINT", raising=False)
    x, y = arrays()
    assert mimw.check(plain, (2, ), x, y, 128, seeds=2, jobs=1).ok
    assert mimw.predict(plain, (2, ), x, y, 128).microseconds > 0
    with pytest.warns(mimw.errors.RemarkWarning, match="the compiled kernel runs past it") as noted:
        text = to_ttgir(plain, {"x": "*fp32", "y": "*fp32", "N": "constexpr"}, {"N": 128}).ttgir
    assert len(noted) == 1 and noted[0].filename == __file__
    assert "breakpoint" not in re.sub(r'loc\(".*?"', "", text) and "scf.if" not in text


def test_it_takes_no_argument():
    with pytest.raises(Exception, match="too many positional arguments"):
        mimw.simulate(wrong, (1, ), arrays()[0])


def test_a_condition_is_the_kernels_own():
    with debugged.session(4) as session:
        session.go()
        assert session["row"] == 4
        session.go()
        assert session.event is None


@pytest.mark.parametrize("prompting", [False, True])
def test_nobody_else_writes_to_the_terminal_of_a_prompt(prompting, monkeypatch):
    monkeypatch.delenv("MIMW_PROGRESS", raising=False)
    monkeypatch.setattr(progress, "FIRST", 0.01)
    stream = io.StringIO()
    if prompting:
        breakpoints.prompting.set()
    with progress.working("simulating", stream):
        end = time.monotonic() + 0.1
        while not stream.getvalue() and time.monotonic() < end:
            time.sleep(0.01)
    breakpoints.prompting.clear()
    assert bool(stream.getvalue()) is not prompting
