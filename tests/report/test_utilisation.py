"""The numbers of a timeline: shares of each lane, and its bubbles."""

import pytest

from mimw.ir import Site
from mimw.report.utilisation import bubbles, shares, utilisation_table
from mimw.trace import Event, Trace

FULL, FREE = Site("/home/me/gemm.py", 55), Site("/home/me/gemm.py", 140)
TRACE = Trace([Event(0, "mma", "wait", 10, 30, "'full'[0] parity 0", FULL), Event(0, "mma", "dot", 30, 60, "64 x 64 x 64"),
               Event(0, "mma", "wait", 60, 65, "'full'[1] parity 0", FULL), Event(0, "mma", "run", 65, 110, "mma"),
               Event(0, "load", "run", 0, 20, "load"), Event(0, "load", "wait", 20, 100, "barrier_wait free", FREE)], "us")


def test_shares_are_of_the_lanes_own_time():
    assert shares(TRACE, (0, "mma")) == pytest.approx({"wait": 0.25, "dot": 0.3, "run": 0.45})
    assert shares(TRACE, (0, "nobody")) == {}


def test_bubbles_add_up_what_is_waited_for_at_one_line():
    first, second = bubbles(TRACE)
    assert (first.lane, first.what, first.time, first.times, first.site) == ((0, "load"), "barrier_wait free", 80, 1, FREE)
    assert (second.what, second.time, second.times, second.site) == ("full", 25, 2, FULL)
    assert bubbles(TRACE, (0, "mma")) == [second]


def test_the_table():
    text = utilisation_table(TRACE)
    assert "75 %" in text and "25 %" in text and "full 25 us in 2 (gemm.py:55)" in text
