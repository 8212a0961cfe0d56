"""A timeline in numbers: how busy each lane was, for what the lane waited, how often and how long.

Input: the `Trace` of a run. Output: shares of the time of a lane by kind of event, its waits as `Bubble`s, or a table
of all lanes:

    shares(trace, (0, "load"))        {"run": 0.25, "wait": 0.75}
    bubbles(trace)                    [Bubble((0, "load"), "free", None, time=360.0, times=1)]
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import PurePath

from ..ir.site import Site
from ..trace import BY_PRODUCTS, Trace
from .table import table

Lane = tuple[int, str]


@dataclass(frozen=True)
class Bubble:
    """All waits of one lane at one place for one thing: `time` in the trace's unit, `times` how often."""

    lane: Lane
    what: str
    site: Site | None
    time: float
    times: int


def shares(trace: Trace, lane: Lane) -> dict[str, float]:
    """Kind of event -> its share (0 to 1) of the lane's time, from its first event to its last."""
    events = [event for event in trace.events if (event.cta, event.lane) == lane]
    span = max((event.end for event in events), default=0.0) - min((event.start for event in events), default=0.0)
    found: dict[str, float] = defaultdict(float)
    for event in (event for event in events if event.kind != "pipe"):       # a moment, which takes no time
        found[event.kind] += (event.end - event.start) / span if span else 0.0
    return dict(found)


def bubbles(trace: Trace, lane: Lane | None = None) -> list[Bubble]:
    """The waits of one lane, or of all, longest first. `full[2] parity 1` and its like count as one thing, `full`, or
    `full (tcgen05)` if products in tensor memory arrive there, and so do the waits of one end of a pipe for its chunks."""
    sums: dict[tuple, list[float]] = defaultdict(list)
    for event in trace.events:
        if event.kind == "wait" and lane in (None, (event.cta, event.lane)):
            sums[event.cta, event.lane, _thing(event.label), event.site].append(event.end - event.start)
    found = [Bubble((cta, name), what, site, sum(times), len(times)) for (cta, name, what, site), times in sums.items()]
    return sorted(found, key=lambda bubble: -bubble.time)


def _thing(label: str) -> str:
    """What a wait is for, without the numbers of barriers, chunks and slots."""
    if label.startswith("pipe "):
        return re.sub(r"\bslot \d+", "a slot", re.sub(r", chunk \d+", "", label))
    name = label.split("[")[0].replace("'", "")
    return f"{name} (tcgen05)" if label.endswith(BY_PRODUCTS) else name


def utilisation_table(trace: Trace, longest: int = 3) -> str:
    """A row a lane: the shares of its time, and its longest bubbles with their lines."""
    rows = []
    for lane in trace.lanes():
        found = shares(trace, lane)
        busy = sum(share for kind, share in found.items() if kind != "wait")
        lost = "; ".join(f"{bubble.what} {bubble.time:,.4g} {trace.unit} in {bubble.times}{_line(bubble.site)}"
                         for bubble in bubbles(trace, lane)[:longest])
        place = trace.place(lane[0]).removeprefix("cta ")
        rows.append((place, lane[1], f"{100 * busy:.0f} %", f"{100 * found.get('wait', 0.0):.0f} %", lost))
    return table(("cta", "lane", "busy", "waits", "longest waits"), rows, right=("cta", "busy", "waits"))


def _line(site: Site | None) -> str:
    return f" ({PurePath(site.file).name}:{site.line})" if site else ""
