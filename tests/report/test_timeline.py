"""The timeline of a run, as a picture and as a page."""

from xml.etree import ElementTree

import pytest

from mimw.ir import Site
from mimw.ir.trace import Event, Trace
from mimw.report import timeline_svg
from mimw.report.utilisation import busy

SVG = "{http://www.w3.org/2000/svg}"


def run(ctas=1):
    trace = Trace()
    for cta in range(ctas):
        trace.events += [
            Event(cta, "load", "run", 0, 20, "issue <A & B>", Site("/home/me/gemm.py", 41)),
            Event(cta, "TMA", "copy", 20, 80, "a[0]", Site("/home/me/gemm.py", 41), bytes=32768),
            Event(cta, "mma", "wait", 0, 80, "full[0]", Site("/home/me/gemm.py", 55)),
            Event(cta, "tensor core", "dot", 80, 100, "async_dot"),
        ]
    return trace


def drawn(trace, title="a run"):
    return ElementTree.fromstring(timeline_svg(trace, title))


def bars(picture):
    return {group.find(f"{SVG}title").text.splitlines()[0]: group.find(f"{SVG}rect")
            for group in picture.iter(f"{SVG}g") if group.get("class") == "event"}


def words(picture):
    return [text.text for text in picture.iter(f"{SVG}text")]


def test_a_row_a_lane_with_its_share_of_work():
    lanes = ["load", "mma", "TMA", "tensor core"]
    assert [word for word in words(drawn(run())) if word in lanes] == lanes
    assert [word for word in words(drawn(run())) if word and word.endswith("%")] == ["20 %", "0 %", "60 %", "20 %"]


def test_bars_are_in_proportion_to_time():
    found = bars(drawn(run()))
    assert float(found["full[0]"].get("width")) == pytest.approx(4 * float(found["issue <A & B>"].get("width")), abs=0.05)
    assert float(found["a[0]"].get("x")) == pytest.approx(
        float(found["issue <A & B>"].get("x")) + float(found["issue <A & B>"].get("width")), abs=0.05)
    assert len({bar.get("fill") for bar in found.values()}) == 4


def test_tooltips_name_the_line_and_the_bytes():
    titles = [title.text for title in drawn(run()).iter(f"{SVG}title")]
    assert titles[1] == "full[0]\nwaiting, 0 to 80 (80 cycles)\ngemm.py:55"
    assert "a[0]\ncopy in flight, 20 to 80 (60 cycles)\n32,768 bytes\ngemm.py:41" in titles


def test_the_legend_holds_what_is_shown():
    trace = Trace([Event(0, "load", "run", 0, 1, "x")])
    assert "running" in words(drawn(trace))
    assert "waiting" not in words(drawn(trace))


def test_ctas_are_named_where_there_are_several():
    assert "load" in words(drawn(run()))
    assert {"cta 0 / load", "cta 1 / load"} <= set(words(drawn(run(ctas=2))))


def test_an_empty_run():
    assert "0" in words(drawn(Trace()))
    assert busy(Trace(), (0, "load")) == 0.0
