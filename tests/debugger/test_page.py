"""The page of a debugged run: its data say at each event what the session says there, and it stands where the session stands."""

import json
import re
from bisect import bisect_right

import numpy as np
import pytest

import mimw
from mimw.tools.debugger import recording
from mimw.tools.debugger.page import page
from tests.kernels import clusters, debugged


@pytest.fixture(scope="module")
def made():
    """(session, page, data) of a session at its breakpoint."""
    with debugged.session() as session:
        session.go()
        number = session.number
        html = page(session).html()
        assert session.number == number and session.event.op.name == "breakpoint"
        yield session, html, json.loads(re.search(r'id="data">(.*?)</script>', html, re.DOTALL)[1])


def shown(data, kind, name, number):
    """The text of a cell at an event."""
    since, texts = data["cells"][kind][name]
    place = bisect_right(since, number)
    return data["texts"][texts[place - 1]] if place else None


def test_the_page_needs_nothing_else(made):
    _, html, data = made
    assert "default-src 'none'" in html and "http" not in html.replace("http-equiv", "")
    assert data["events"][data["start"]][0] == made[0].number and data["actors"] == ["default", "add", "load"]


@pytest.mark.parametrize("number", [12, 30, 77, 120, 160])
def test_cells_are_what_the_session_says(made, number):
    session, _, data = made
    before = session.number
    session.goto(number)
    for line in session.barriers().splitlines():
        name, phase, parity = re.match(r"(\S+)\s+phase (\d+) \(parity (\d)\)", line).groups()
        assert shown(data, "barriers", name, number).startswith(f"{phase} (parity {parity})")
    for task in session.player.tasks_of((0, 0, 0)):
        state = shown(data, "tasks", task.name, number)
        assert ("\twaits for" in state) == ("waits for" in next(
            line for line in session.where().splitlines() if line[2:].startswith(task.name)))
    assert data["texts"][data["events"][number][2]] in session.here()
    session.goto(before)


def test_values_and_buffers(made):
    session, _, data = made
    assert shown(data, "values", "add\trow", data["start"]) == "3"
    assert shown(data, "values", "add\tsums.total", data["start"]).startswith("float32[1, 64]: min")
    assert shown(data, "buffers", "ring[1]", data["start"]).startswith("written\tby tma_load of 'load' at debugged.py")
    assert shown(data, "buffers", "ring[1]", 5) is None or "not written" in shown(data, "buffers", "ring[1]", 5)


def test_an_error_stands_at_its_lines():
    with debugged.session(-1, "early") as session:
        html = page(session).html()
        assert session.number == 0 and "SlotReusedEarly" in html and 'class="note"' in html and "verdict bad" in html
        assert "in an error: SlotReusedEarly" in html


def test_tasks_of_a_cluster_stand_together():
    x, y = np.arange(256, dtype=np.int32), np.zeros(256, np.int32)
    with mimw.debug(clusters.in_tasks, (2, ), x, y, N=128, ctas_per_cga=(2, 1, 1)) as session:
        data = page(session).recording.data
    ranks = [int(actor.partition(" @")[2]) for actor in data["actors"]]
    assert ranks == sorted(ranks) and len(set(ranks)) > 1
    for number, _, says, _, actor, kind in data["events"][:-1]:
        name, _, rank = data["actors"][actor].partition(" @")
        assert kind == "end" or f"task {name!r} of CTA ({rank}," in data["texts"][says]


def test_what_is_too_long_is_cut(monkeypatch):
    monkeypatch.setattr(recording, "MOST", 40)
    with debugged.session() as session:
        made = page(session)
        assert len(made.recording.events) == 40 and any("later ones are left out" in fact for fact in made.facts)


def test_the_page_of_the_site_says_what_the_debugger_says():
    """Else: python docs/support/debugger_page.py"""
    from docs.support import debugger_page
    assert debugger_page.main(["--check"]) == 0
    kept = debugger_page.PAGE.read_text()
    assert str(debugger_page.ROOT) not in kept and "is about to do breakpoint at debugged.py" in kept


def test_a_notebook_has_it_in_a_frame():
    with debugged.session() as session:
        frame = session._repr_html_()
        assert frame.startswith('<iframe srcdoc="') and 'sandbox="allow-scripts"' in frame
        assert str(session).startswith("event 0, cycle") and "event 0" in repr(session)
