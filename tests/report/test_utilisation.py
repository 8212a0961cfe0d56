"""The numbers of a timeline: shares of each lane, and its bubbles."""

import json
import re

import pytest

from mimw.ir import Site
from mimw.ir.trace import LINKS, Event, Trace
from mimw.report import chrome_trace, timeline_svg
from mimw.report.utilisation import bubbles, busy, shares, utilisation_table
from mimw.tools.timing.result import Timeline

FULL, FREE = Site("/home/me/gemm.py", 55), Site("/home/me/gemm.py", 140)
TRACE = Trace([Event(0, "mma", "wait", 10, 30, "'full'[0] parity 0", FULL), Event(0, "mma", "dot", 30, 60, "64 x 64 x 64"),
               Event(0, "mma", "wait", 60, 65, "'full'[1] parity 0", FULL), Event(0, "mma", "run", 65, 110, "mma"),
               Event(0, "load", "run", 0, 20, "load"), Event(0, "load", "wait", 20, 100, "barrier_wait free", FREE)], "us")


def test_shares_are_of_the_time_of_the_cta():
    """`mma` begins 10 us after its CTA: for a tenth of the CTA's time it does nothing, which is neither work nor waiting."""
    assert shares(TRACE, (0, "mma")) == pytest.approx({"wait": 25 / 110, "dot": 30 / 110, "run": 45 / 110})
    assert shares(TRACE, (0, "nobody")) == {} and busy(TRACE, (0, "nobody")) == 0


def test_a_cta_that_starts_late_is_compared_with_its_own_time():
    later = Trace([*TRACE.events, Event(1, "mma", "run", 200, 230, "mma"), Event(1, "mma", "wait", 230, 240, "full"),
                   Event(LINKS, "rank 0 to rank 1", "copy", 0, 60, "put")], "us")
    assert busy(later, (1, "mma")) == 0.75 and busy(later, (0, "mma")) == busy(TRACE, (0, "mma"))
    assert busy(later, (LINKS, "rank 0 to rank 1")) == 0.25


def test_console_picture_json_and_trace_say_the_same_of_busy():
    """One definition: 20 of the CTA's 110 us, and 75."""
    timeline = Timeline("ring", (1, ), 110.0, 1980.0, TRACE)
    assert timeline.busy() == {"load": pytest.approx(20 / 110), "mma": pytest.approx(75 / 110)}
    table = {line.split()[1]: line.split()[2] for line in utilisation_table(TRACE).splitlines() if "%" in line}
    drawn = re.findall(r">(\d+ %)<", timeline_svg(TRACE, "ring"))
    perfetto = {lane["lane"]: lane["busy"] for lane in json.loads(chrome_trace(TRACE, "ring"))["otherData"]["lanes"]}
    assert table == {"load": "18", "mma": "68"} and drawn == ["18 %", "68 %"] and perfetto == timeline.busy()
    row = timeline.as_json()["utilisation"]["mma"]
    assert sum(share for kind, share in row.items() if kind != "wait") == pytest.approx(75 / 110)


def test_bubbles_add_up_what_is_waited_for_at_one_line():
    first, second = bubbles(TRACE)
    assert (first.lane, first.what, first.time, first.times, first.site) == ((0, "load"), "barrier_wait free", 80, 1, FREE)
    assert (second.what, second.time, second.times, second.site) == ("full", 25, 2, FULL)
    assert bubbles(TRACE, (0, "mma")) == [second]


def test_the_table():
    text = utilisation_table(TRACE)
    assert "68 %" in text and "23 %" in text and "full 25 us in 2 (gemm.py:55)" in text
