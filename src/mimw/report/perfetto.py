"""A run as Chrome trace events, which Perfetto (ui.perfetto.dev) and chrome://tracing open.

Input: a `Trace` and a title. Output: JSON, with an event such as this one for each event of the trace:

    {"ph": "X", "name": "'free'[0] parity 1", "cat": "wait", "pid": 0, "tid": 0, "ts": 120.0, "dur": 360.0, "args": {}}

A CTA is a process and each of its lanes a thread. Times are microseconds, or cycles where cycles are the trace's unit.
With the events goes a summary: for each lane how busy the lane was (utilisation.py), and its bubbles, the stretches in
which the lane waited.
"""

from __future__ import annotations

import json

from ..ir.trace import Trace
from .utilisation import busy


def chrome_trace(trace: Trace, title: str) -> str:
    """The JSON text of the whole run."""
    lanes = trace.lanes()
    number = {lane: index for index, lane in enumerate(lanes)}
    events = [{"ph": "M", "name": "process_name", "pid": cta, "args": {"name": trace.place(cta).replace("cta", "CTA")}}
              for cta in dict.fromkeys(cta for cta, _ in lanes)]
    events += [{"ph": "M", "name": "thread_name", "pid": cta, "tid": number[cta, name], "args": {"name": name}}
               for cta, name in lanes]
    for event in trace.events:
        details = {"line": str(event.site)} if event.site else {}
        details |= {"bytes": event.bytes} if event.bytes else {}
        span = {"ph": "X", "dur": event.end - event.start} if event.kind != "pipe" else {"ph": "i", "s": "t"}
        events.append({**span, "name": event.label, "cat": event.kind, "pid": event.cta, "tid": number[event.cta, event.lane],
                       "ts": event.start, "args": details})
    summary = {"title": title, "unit": trace.unit, "end": trace.end, "lanes": [summary_of(trace, lane) for lane in lanes]}
    return json.dumps({"traceEvents": events, "otherData": summary}, indent=None)


def summary_of(trace: Trace, lane: tuple[int, str]) -> dict:
    """Busy share of a lane and its bubbles, the longest wait first: (time, for what)."""
    waits = [event for event in trace.events if (event.cta, event.lane) == lane and event.kind == "wait"]
    waits.sort(key=lambda event: event.start - event.end)
    return {"cta": lane[0], "lane": lane[1], "busy": busy(trace, lane),
            "bubbles": [[event.end - event.start, event.label] for event in waits[:8]]}
