"""The timeline of a tutorial's run as a small picture for pages: 700 wide, light and dark, a few lanes of a stretch of the run.

Input: the traces of a run, or of several runs that follow each other, and which CTAs and cycles of them to draw. Output: SVG text:

    picture("01 Be early", [run.trace], View(ctas=(0, ), until=1500))

What is shorter than a pixel is one bar with its neighbour, so that a picture of many thousand events stays small.
The colours follow what the reader's system prefers, by CSS inside of the picture: pages show it by `![](01.svg)`, as it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from mimw.ir.trace import Event, Trace
from mimw.report import svg

WIDTH, ROW, BAR, HEAD, FOOT, MARGIN = 700.0, 21.0, 15.0, 34.0, 34.0, 10.0
MEANING = {"run": "works", "wait": "waits", "copy": "copy in flight", "dot": "tensor cores", "store": "store", "pipe": "pipe"}
SMALL, NAME, LEADING, NOTES = 9.0, 11.0, 16.0, 136.0      # sizes of letters; how far notes are apart, and where they begin
HIDDEN = 0.02     # tasks that last less than this share of the picture are left out
STYLE = """
svg{background:#fff;border-radius:8px}text{font-family:ui-sans-serif,Helvetica,Arial,sans-serif;font-size:11px;fill:#1f2430}
.q{fill:#5b6472}.l{font-size:9px}.c{font-family:ui-monospace,Menlo,Consolas,monospace;font-size:10px}.e{text-anchor:end}
.m{text-anchor:middle}.g{stroke:#e3e6eb}.b{fill:#f4f6f8}
.run{fill:#3b6fb6}.wait{fill:#d9dee6}.copy{fill:#e08e2b}.dot{fill:#287f50}.store{fill:#8a5bb0}
.on{fill:#fff}.off{fill:#4b5361}.dark{fill:#1f2430}.n{fill:#c0263a;font-weight:600}.edge{stroke:#c0263a;stroke-width:2;fill:none}
.band{fill:#c0263a;opacity:.14}
@media(prefers-color-scheme:dark){svg{background:#131416}text{fill:#e6e9ee}.q{fill:#9aa4b2}.g{stroke:#2a313c}.b{fill:#1b2129}
.run{fill:#3f76c2}.wait{fill:#333c49}.dot{fill:#287f50}.store{fill:#8a5bb0}.n{fill:#ff6b7d}.edge{stroke:#ff6b7d}.band{fill:#ff6b7d}
.on{fill:#fff}.off{fill:#b4bdc9}.dark{fill:#1f2430}}
""".replace("\n", "")
INK = {"run": "on", "wait": "off", "copy": "dark", "dot": "on", "store": "on"}


@dataclass(frozen=True)
class View:
    """What of a run is drawn: the lanes of some CTAs (of all, if none are named), from one cycle to another."""

    ctas: tuple[int, ...] = (0, )
    since: float = 0.0
    until: float | None = None


@dataclass(frozen=True)
class Mark:
    """What is wrong: a stretch of one lane, outlined."""

    lane: str
    start: float
    end: float


@dataclass(frozen=True)
class Note:
    """A row of words below: what kind of thing it is, and the words, of code or of prose."""

    head: str
    said: str
    code: bool = False


@dataclass(frozen=True)
class Line:
    """A row below: a line of the source, what it says, and its share of the cycles of all lines."""

    number: int
    source: str
    share: float


@dataclass(frozen=True)
class Lane:
    """A row of the picture: its name, and its events on the picture's axis."""

    name: str
    events: list[Event]


def picture(title: str, traces: Sequence[Trace], view: View, lines: Sequence[Line] = (), marks: Sequence[Mark] = (),
            notes: Sequence[Note] = ()) -> str:
    """Runs follow each other on one axis; `title` is for readers who do not see the picture."""
    until = view.until or sum(trace.end for trace in traces)
    lanes = lanes_of(traces, view, until)
    left = max([60.0, *(svg.text_width(lane.name, NAME) + 2 * MARGIN for lane in lanes)])
    scale = (WIDTH - left - 2 * MARGIN) / (until - view.since)
    body = legend({event.kind for lane in lanes for event in lane.events})
    body += axis(view.since, until, left, scale, len(lanes), traces[0].unit)
    for number, lane in enumerate(lanes):
        body += row(lane, HEAD + ROW * number, view.since, left, scale)
    body += outlined(marks, [lane.name for lane in lanes], view.since, left, scale)
    height = HEAD + ROW * len(lanes) + FOOT
    for number, line in enumerate(lines):
        body += share_of(line, height + 4 + ROW * number)
    height += ROW * len(lines) + MARGIN if lines else 0
    for number, note in enumerate(notes):
        body += words(MARGIN, height + LEADING * number + 10, note.head, "n")
        body += words(NOTES, height + LEADING * number + 10, svg.fitted(note.said, WIDTH - NOTES, NAME), "c" if note.code else "")
    return document(title, height + (LEADING * len(notes) + MARGIN if notes else 0), body)


def outlined(marks: Sequence[Mark], names: list[str], since: float, left: float, scale: float) -> str:
    """Each stretch has an outline, and a band goes through all lanes where the stretches meet."""
    if not marks:
        return ""
    start, end = max(mark.start for mark in marks), min(mark.end for mark in marks)
    drawn = svg.element("rect", class_="band", x=round(left + (start - since) * scale, 1), y=HEAD - 4,
                        width=round((end - start) * scale, 1), height=ROW * len(names) + 8)
    for mark in marks:
        drawn += svg.element("rect", class_="edge", x=round(left + (mark.start - since) * scale, 1), rx=2,
                             y=HEAD + ROW * names.index(mark.lane) + (ROW - BAR) / 2 - 1.5,
                             width=round((mark.end - mark.start) * scale, 1), height=BAR + 3)
    return drawn


def share_of(line: Line, y: float) -> str:
    """A source line, with a bar as long as its share of the cycles."""
    middle, room = y + ROW / 2, 130.0
    drawn = words(36.0, middle + 4, f"{line.number}", "q e l")
    drawn += svg.element("rect", class_="b", x=44.0, y=y + 3, width=room, height=BAR)
    drawn += svg.element("rect", class_="run", x=44.0, y=y + 3, width=round(room * line.share, 1), height=BAR)
    drawn += words(44 + room + 34, middle + 4, f"{100 * line.share:.0f} %", "e l")
    return drawn + words(44 + room + 44, middle + 4, svg.fitted(line.source, WIDTH - room - 110, NAME), "c")


def document(title: str, height: float, body: str) -> str:
    """A whole picture, one element a line, so that two versions can be compared."""
    lines = body.replace("/><", "/>\n<").replace("</text><", "</text>\n<")
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:g} {height:g}" width="{WIDTH:g}" height="{height:g}" '
            f'role="img"><title>{escape(title)}</title><style>{STYLE}</style>\n{lines}\n</svg>\n')


def lanes_of(traces: Sequence[Trace], view: View, until: float) -> list[Lane]:
    """The rows, of each CTA in the order in which a trace has them, with what lies within the view."""
    found: dict[str, list[Event]] = {}
    start, several = 0.0, len({cta for trace in traces for cta, _ in trace.lanes() if cta in view.ctas or not view.ctas}) > 1
    for trace in traces:
        for cta, lane in sorted(trace.lanes(), key=replica):
            if cta in view.ctas or not view.ctas:
                name = f"{trace.place(cta)} / {lane}" if several else lane
                found.setdefault(name, []).extend(
                    Event(cta, lane, event.kind, max(event.start + start, view.since), min(event.end + start, until), event.label)
                    for event in trace.events if (event.cta, event.lane) == (cta, lane)
                    and event.start + start < until and event.end + start > view.since)
        start += trace.end
    span = until - view.since
    return [Lane(name, sorted(events, key=lambda event: event.start)) for name, events in found.items()
            if any(event.kind not in ("run", "wait") for event in events)
            or sum(event.end - event.start for event in events) > HIDDEN * span]


def replica(lane: tuple[int, str]) -> tuple[int, bool, str]:
    """Tasks first, replicas of a task in the order of their numbers, then the units that tasks start; the sort keeps the rest."""
    cta, name = lane
    return cta, not re.fullmatch(r"(.+)\[\d+\]", name), name if name.endswith("]") else ""


def row(lane: Lane, y: float, since: float, left: float, scale: float) -> str:
    """A name, a pale ground, and the bars."""
    middle = y + ROW / 2
    drawn = words(left - 6, middle + 4, lane.name, "e")
    drawn += svg.element("rect", class_="b", x=left, y=y + (ROW - BAR) / 2, width=WIDTH - left - 2 * MARGIN, height=BAR)
    for kind, start, end, label in merged(lane.events, 1 / scale):
        x, width = left + (start - since) * scale, max(1.2, (end - start) * scale)
        gap = 0.6 if width > 2.5 else 0.0       # neighbours of one kind stay two bars
        drawn += svg.element("rect", class_=kind, x=round(x, 1), y=y + (ROW - BAR) / 2, width=round(width - gap, 1), height=BAR)
        said = "" if kind == "run" else svg.fitted(label, width - 4, 0.9 * SMALL)
        if said == label or len(said) > 6:      # "ful…" would say nothing
            drawn += words(round(x + 3, 1), middle + 3, said, f"l {INK.get(kind, 'off')}")
    return drawn


def merged(events: list[Event], pixel: float) -> list[tuple[str, float, float, str]]:
    """(kind, start, end, label): what is too short to be told apart is one bar, of the kind that takes the most of it."""
    found: list[tuple[str, float, float, str]] = []
    for event in (event for event in events if event.kind != "pipe"):
        new = (event.kind, event.start, event.end, short(event.label))
        if found and event.end - event.start < pixel and event.start - found[-1][2] < pixel:
            kind, start, _, label = found[-1]
            found[-1] = (kind, start, max(event.end, found[-1][2]), label)
        elif found and found[-1][0] == event.kind == "run" and event.start - found[-1][2] < pixel:
            found[-1] = ("run", found[-1][1], event.end, "")
        else:
            found.append(new)
    return found


def short(label: str) -> str:
    """The thing itself: `'full'[2] parity 1` is full[2]."""
    label = re.sub(r", (task|by) .*", "", label.replace("'", ""))
    return re.sub(r" parity \d+$", "", label)


def legend(kinds: set[str]) -> str:
    x, drawn = MARGIN, ""
    for kind, meaning in MEANING.items():
        if kind in kinds and kind != "pipe":
            drawn += svg.element("rect", class_=kind, x=x, y=12.0, width=11.0, height=11.0) + words(x + 16, 21.5, meaning, "q")
            x += 16 + svg.text_width(meaning, NAME) + 16
    return drawn


def axis(since: float, until: float, left: float, scale: float, lanes: int, unit: str) -> str:
    """Lines at round numbers behind the rows, the numbers below."""
    bottom, drawn = HEAD + ROW * lanes, ""
    for tick in svg.ticks(until - since, 6):
        x = left + tick * scale
        drawn += svg.element("line", class_="g", x1=round(x, 1), y1=HEAD - 4, x2=round(x, 1), y2=bottom + 4)
        drawn += words(round(x, 1), bottom + 16, f"{since + tick:,.10g}", "q m l")
    return drawn + words(WIDTH - 2 * MARGIN, bottom + 28, unit, "q e l")


def words(x: float, y: float, said: str, class_: str) -> str:
    return svg.element("text", escape(said), class_=class_, x=x, y=y)
