"""The Chrome trace of a run: every event on the lane that it belongs to, and what the lanes lost by waiting."""

import json

from mimw.ir.trace import Event, Trace
from mimw.report import chrome_trace


def test_events_lanes_and_bubbles():
    trace = Trace([Event(0, "load", "run", 0, 20, "issue"), Event(0, "mma", "wait", 0, 80, "full[0]"),
                   Event(0, "mma", "run", 80, 100, "mma"), Event(1, "TMA", "copy", 20, 80, "a[0]", bytes=512)])
    read = json.loads(chrome_trace(trace, "a run"))
    names = {(event["pid"], event["tid"]): event["args"]["name"] for event in read["traceEvents"] if event["name"] == "thread_name"}
    spans = [(event["pid"], names[event["pid"], event["tid"]], event["name"], event["ts"], event["dur"])
             for event in read["traceEvents"] if event["ph"] == "X"]
    assert spans == [(0, "load", "issue", 0, 20), (0, "mma", "full[0]", 0, 80),
                     (0, "mma", "mma", 80, 20), (1, "TMA", "a[0]", 20, 60)]
    lanes = {lane["lane"]: lane for lane in read["otherData"]["lanes"]}
    assert lanes["mma"]["busy"] == 0.2 and lanes["mma"]["bubbles"] == [[80, "full[0]"]] and lanes["load"]["bubbles"] == []
