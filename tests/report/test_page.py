"""The page of a kernel: findings on their lines, links that resolve, nothing from elsewhere, nothing that a name can break."""

import json
import re
from types import SimpleNamespace

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.ir import Site
from mimw.ir.trace import Event, Trace
from mimw.report.page import Note, Page
from mimw.report.page.lanes import MOST_EVENTS, MOST_LANES, Lanes
from mimw.report.page.lines import Lines
from mimw.report.page.runs import alike, most_events
from tests.kernels import tma_pipeline
from tests.kernels.lines import line_of
from tests.report.pages import TWO, page, read, report

RACE, STUCK, RIGHT = "released_before_the_wait", "first_wait_with_parity_0", "right_pipeline"


def data(text, run=0):
    """What the page's JavaScript has of the timeline of one run."""
    found = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)[1])
    one = found["runs"][run]
    events = [event for row in one["events"] for event in
              ([row] if len(row) > 2 else found["runs"][0]["events"][row[0]:sum(row)])]
    return found | one | {"events": events, "sent": one["events"]}


def test_a_finding_stands_on_its_line_and_marks_the_other_side():
    dot = line_of(tma_pipeline.pipeline, "acc = tlx.async_dot(")
    load = line_of(tma_pipeline.pipeline, "tlx.async_descriptor_load(a_desc")
    text, found = page(RACE), read(page(RACE))
    rows = re.split(r'(?=<div class="ln)', text)
    on, = [row for row in rows if f'id="L0.{dot}"' in row]
    assert 'id="N1"' in on and "OperandOverwritten" in on and "Mend" in on and "Shown by grid=(1,)" in on
    assert {row.get("id") for row in found.of_class("bad")} >= {f"L0.{dot}", f"L0.{load}"}
    assert found.text.count("two accesses, and the second") == 2          # below the line, and in the list of findings


def test_the_run_that_shows_the_finding_is_drawn_up_to_the_error():
    for name, kinds in ((RACE, {"copy", "dot"}), (STUCK, {"wait"})):
        drawn = data(page(name))
        marked = [drawn["events"][number] for number in drawn["marked"]]
        assert {drawn["kinds"][kind][0] for _, kind, *_ in marked} == kinds and len(marked) == 2
        assert all(start <= drawn["at"] <= start + time for _, _, start, time, *_ in marked)
        assert read(page(name)).of_class("found")
    stuck = data(page(STUCK))
    waiting = {stuck["lanes"][stuck["events"][number][0]]["name"] for number in stuck["marked"]}
    assert waiting == {"consumer", "producer"}
    assert report(STUCK).findings[0].kind == "PhaseOffByOne"


def test_each_finding_has_the_timeline_of_its_own_run():
    text, found = page(TWO), read(page(TWO))
    first, second = data(text), data(text, 1)
    assert [run["note"] for run in first["runs"]] == [1, 2] and first["at"] != second["at"]
    for drawn, finding in zip((first, second), report(TWO).findings, strict=True):
        again = report(TWO).replay(finding)
        assert len(drawn["events"]) == len(again.trace.events) and drawn["at"] == pytest.approx(again.at, rel=1e-6)
        assert type(again.error).__name__ == finding.kind
        lines = {drawn["sets"][drawn["events"][number][5]].split(" ")[0] for number in drawn["marked"]}
        assert lines <= {f"0.{site.line}" for site in finding.sites[:2]} and (lines or drawn is first)     # an arrival is no event
    assert any(len(row) == 2 for row in second["sent"]) and len(text) < len(page(STUCK)) + 20_000
    assert [one["data-run"] for _, one in found.elements if "data-run" in one] == ["0", "1"]
    for finding in report(TWO).findings:
        assert found.text.count(finding.shown_by) == 2      # below its line, and above its timeline
    assert found.of_class("about") and "seed" not in text.partition("</header>")[0]
    assert not read(page(RACE)).of_class("runs") and "seed 0" in read(page(RACE)).text


def test_events_of_another_run_that_are_those_of_the_first_stand_once():
    first = [[0, 0, 0.0, 1.0, 0, 0, 0], [0, 1, 1.0, 1.0, 0, 0, 0], [1, 0, 0.0, 2.0, 0, 0, 0]]
    other = [first[1], first[2], [0, 0, 9.0, 1.0, 0, 0, 0], first[0]]
    assert alike(first, other) == [[1, 2], other[2], [0, 1]] and alike(first, first) == [[0, 3]]
    assert most_events(0, 3) == MOST_EVENTS and most_events(1, 3) == most_events(2, 3) == MOST_EVENTS // 2


def test_every_link_of_every_pane_ends_on_the_page():
    for name in (RACE, STUCK, RIGHT, TWO):
        found, lines = read(page(name)), set()
        for tag, attributes in found.elements:
            lines |= set(attributes.get("data-l", "").split())
            if tag == "a":
                assert attributes["href"][1:] in found.ids, attributes
        assert lines and {f"L{key}" for key in lines} <= found.ids
        assert {f"L{key}" for keys in data(page(name))["sets"] for key in keys.split()} <= found.ids
        assert len([one for one in found.elements if "id" in one[1]]) == len(found.ids), "an id stands twice"


def test_a_buffer_a_barrier_and_a_task_know_their_lines():
    found, load = read(page(RACE)), line_of(tma_pipeline.pipeline, "tlx.async_descriptor_load(a_desc")
    linked = {attributes.get("data-name"): attributes["data-l"].split() for attributes in found.of_class("region")
              + found.of_class("caption") + found.of_class("box")}
    assert linked.keys() >= {"a_tiles", "b_tiles", "c_tile", "full", "full[2]", "free[2]", "consumer", "producer"}
    assert all(f"0.{load}" in linked[name] for name in ("a_tiles", "full[2]", "producer"))
    assert not any(f"0.{load}" in linked[name] for name in ("b_tiles", "c_tile", "consumer", "free[2]"))


def test_nothing_found_is_a_page_too():
    found = read(page(RIGHT))
    assert "ok: nothing found in 1 run" in found.text and not found.of_class("note") and found.of_class("ev")
    assert data(page(RIGHT))["at"] is None and [one["class"] for one in found.of_class("good")] == ["verdict good"]


def test_the_page_stands_alone_and_is_small():
    for name in (RACE, STUCK, RIGHT, TWO):
        text = page(name)
        assert "://" not in text and "@import" not in text and "src=" not in text and "<link" not in text
        assert "default-src 'none'" in text and len(text) < 80_000
        assert "/home/" not in text and str(tma_pipeline.__file__) not in text


@mimw.jit
def refused(x):
    """<b>bold</b> & "quoted" </script><script>alert(1)</script>"""
    tlx.local_alloc((4096, 4096), tl.float32, 4)


def test_source_names_and_labels_are_text():
    evil = '</script><script>alert(1)</script><b>"&\u2028'
    site = Site(__file__, refused.starting_line_number + 2)
    trace = Trace([Event(0, evil, "wait", 0.0, 4.0, evil, site), Event(0, "x", "run", 0.0, 4.0, evil)])
    text = Page(evil, (evil, ), evil, False, (Note(evil, f"{evil}\n{evil}", (site, ), evil, evil), Note(evil, evil)), trace=trace,
                texts=((evil, evil), ), no_trace=evil).html()
    assert "alert(1)</script><b>" not in text and "<b>\"" not in text and "<b>bold" not in text
    assert text.count("<script") == 2 and data(text)["labels"] == [evil]
    frame = Page(evil, trace=trace).fragment()
    assert frame.count("<") == 2 and 'sandbox="allow-scripts"' in frame


def test_what_is_refused_before_a_run_has_its_finding_and_no_timeline():
    found = mimw.check(refused, (1, ), np.zeros(4, np.float32))
    text = found._page().html()
    assert not found.ok and "OutOfSharedMemory" in text and "refused before any run" in text and 'id="N1"' in text
    assert "1 found in 0 runs" in read(text).text


def test_a_long_run_is_drawn_in_part_and_says_so():
    many = 2 * MOST_EVENTS
    trace = Trace([Event(0, f"task {number % 4}", "run" if number % 8 < 4 else "wait", float(number), number + 1.0, "x")
                   for number in range(many)])
    first, last = Lanes(trace, Lines(), {}), Lanes(trace, Lines(), {}, at=float(many))
    assert first.left_out == [f"the first 12,000 of 24,000 events are drawn, 0 cycles to {MOST_EVENTS:,} cycles"]
    assert last.left_out[0].startswith("the last 12,000 of 24,000") and len(last.data({}, {})["events"]) == MOST_EVENTS
    assert last.data({}, {})["start"] == many - MOST_EVENTS and last.svg().count("<rect") < 4 * 760
    wide = Trace([Event(cta, "t", "run", 0.0, 1.0, "x") for cta in range(100)])
    drawn = Lanes(wide, Lines(), {})
    assert len(drawn.lanes) == MOST_LANES and drawn.left_out == ["64 of 100 CTAs are drawn"]


def test_all_that_people_hold_has_a_page(tmp_path):
    kernel, grid, args, meta = tma_pipeline.right_pipeline()
    run = mimw.simulate(kernel, grid, *args, trace=True, **meta)
    held = {"simulated for sm_90a": run, "bound by": mimw.predict(kernel, grid, *args, **meta), "pipeline": kernel,
            "kept no timeline": mimw.simulate(kernel, grid, *args, **meta), "nothing found": report(RIGHT)}
    for said, one in held.items():
        one.save_html(tmp_path / "a.html")
        text = (tmp_path / "a.html").read_text()
        assert said in text and "a_tiles" in text and f'id="L0.{kernel.starting_line_number}"' in text
        assert one._repr_html_().startswith("<iframe srcdoc=") and one._repr_html_().endswith("</iframe>")
    told: list = []
    assert all("_repr_pretty_" in type(one).__dict__ for one in held.values() if one is not kernel)     # where IPython looks
    run._repr_pretty_(SimpleNamespace(text=told.append), False)
    assert told == [str(run)] and "pipeline, simulated for sm_90a" in told[0] and "abstract cycles, nothing wrong" in told[0]


@pytest.mark.parametrize("name", ["explain", "compile"])
def test_a_compiled_kernel_has_the_places_of_its_compiler(name):
    kernel, grid, args, meta = tma_pipeline.right_pipeline()
    text = getattr(mimw, name)(kernel, grid, *args, **meta)._page().html()
    assert "places of the compiled kernel" in text and "registers a thread" in text and ("because" in text) == (name == "explain")
