"""A timeline in numbers: the busy time of each lane, and number, length and cause of its waits.

Input: the `Trace` of a run. Output: shares of the time of a lane by kind of event, its waits as `Bubble`s, or a table
of all lanes:

    shares(trace, (0, "load"))        {"run": 0.25, "wait": 0.7}, and for 0.05 of the time nothing
    busy(trace, (0, "load"))          0.25
    bubbles(trace)                    [Bubble((0, "load"), "free", None, time=360.0, times=1)]

**Busy** has this one definition, for the console, pictures, pages and JSON: of the time of the lane's CTA, from the first event of
any lane of that CTA to the last, the share in which the lane ran, copied or computed. The rest is waiting, whose reasons `bubbles`
has, or nothing: before the lane's first event, after its last, or a unit without work. What goes between GPUs has the time of the
whole run. CTAs that run one after the other are each compared with their own time.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import PurePath

from ..ir.site import Site
from ..ir.trace import BY_PRODUCTS, LINKS, Trace
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
    """Kind of event -> its share (0 to 1) of the time of the lane's CTA."""
    return all_shares(trace).get(lane, {})


def all_shares(trace: Trace) -> dict[Lane, dict[str, float]]:
    """`shares` of every lane, in one pass over the events."""
    sums: dict[Lane, dict[str, float]] = {}
    first: dict[int, float] = {}
    last: dict[int, float] = {}
    for event in trace.events:
        kinds = sums.setdefault((event.cta, event.lane), defaultdict(float))
        first[event.cta] = min(event.start, first.get(event.cta, event.start))
        last[event.cta] = max(event.end, last.get(event.cta, event.end))
        if event.kind != "pipe":        # a moment, which takes no time
            kinds[event.kind] += event.end - event.start
    first, last = first | {LINKS: 0.0}, last | {LINKS: max(last.values(), default=0.0)}
    return {lane: {kind: time / whole if (whole := last[lane[0]] - first[lane[0]]) else 0.0 for kind, time in kinds.items()}
            for lane, kinds in sums.items()}


def busy_share(shares: dict[str, float]) -> float:
    """The busy share of a lane, out of its shares by kind."""
    return sum(share for kind, share in shares.items() if kind != "wait")


def busy(trace: Trace, lane: Lane) -> float:
    """The share (0 to 1) of its CTA's time in which a lane ran, copied or computed."""
    return busy_share(shares(trace, lane))


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
    """The object of a wait, without the numbers of barriers, chunks and slots."""
    if label.startswith("pipe "):
        return re.sub(r"\bslot \d+", "a slot", re.sub(r", chunk \d+", "", label))
    name = label.split("[")[0].replace("'", "")
    return f"{name} (tcgen05)" if label.endswith(BY_PRODUCTS) else name


def utilisation_table(trace: Trace, longest: int = 3) -> str:
    """A row a lane: the shares of its time, and its longest bubbles with their lines."""
    rows, shared, waits = [], all_shares(trace), bubbles(trace)
    for lane in trace.lanes():
        found = shared[lane]
        lost = "; ".join(f"{bubble.what} {bubble.time:,.4g} {trace.unit} in {bubble.times}{_line(bubble.site)}"
                         for bubble in [one for one in waits if one.lane == lane][:longest])
        place = trace.place(lane[0]).removeprefix("cta ")
        rows.append((place, lane[1], f"{100 * busy_share(found):.0f} %", f"{100 * found.get('wait', 0.0):.0f} %", lost))
    return table(("cta", "lane", "busy", "waits", "longest waits"), rows, right=("cta", "busy", "waits"))


def _line(site: Site | None) -> str:
    return f" ({PurePath(site.file).name}:{site.line})" if site else ""
