"""The timeline pane: bars that are there without JavaScript, and the events as data, from which the page draws any stretch of time.

Input: the trace of a run, the time of an error, and the lines of the page. Output: the drawing, and plain data for JSON:

    Lanes(trace, lines, tasks).svg()      <svg class="lanes">...: a row a lane, a bar an event
    Lanes(trace, lines, tasks).data()     {"unit": "cycles", "lanes": [...], "events": [[lane, kind, start, time, label, ...], ...]}

What is too short to see is drawn together with its neighbours. Of very long runs a part is kept: the end, where a finding is, else
the beginning; `left_out` says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from itertools import groupby

from ...ir.trace import Event, Trace
from .. import svg
from ..utilisation import all_shares, busy_share
from .lines import Lines

MOST_EVENTS, MOST_LANES = 12_000, 64
WIDTH, ROW, BAR, TOP, SHARE = 760.0, 24.0, 18.0, 22.0, 50.0
# Kinds of a trace's events (`trace.Event.kind`), which are no names of ops.
KINDS = dict(run="running", wait="waiting", copy="copy in flight", dot="tensor-core dot", store="store",
             pipe="commit or release of a pipe")
_LEAST = 1.2        # pixels: what is narrower is drawn together with its neighbours
_THIN = 4.0         # pixels: what is narrower has no edge
_TIPS = 500         # bars that have a tooltip of their own without JavaScript


class Lanes:
    """`tasks` are the keys of all lines of a task, by its name; `at` is the time of an error, `marks` are the lines concerned.
    `most` events are kept."""

    def __init__(self, trace: Trace, lines: Lines, tasks: Mapping[str, str], at: float | None = None, marks: tuple[str, ...] = (),
                 most: int = MOST_EVENTS):
        self.trace, self.lines, self.tasks, self.at, self.most = trace, lines, tasks, at, most
        self.unit, self.left_out = trace.unit, []
        order = list(tasks)
        every = sorted(trace.lanes(), key=lambda lane: (lane[0], order.index(lane[1]) if lane[1] in tasks else len(order)))
        self.lanes = self._fewer(every)
        shares = all_shares(trace)
        self.busy = [busy_share(shares[lane]) for lane in self.lanes]
        number = {lane: index for index, lane in enumerate(self.lanes)}
        self.events = self._some([event for event in trace.events if (event.cta, event.lane) in number])
        self.events.sort(key=lambda event: (number[event.cta, event.lane], event.start, event.end))
        self.number = number
        self.start = 0.0 if len(self.events) < most else min(event.start for event in self.events)
        self.end = max((event.end for event in self.events), default=trace.end) or 1.0
        self.several = len({cta for cta, _ in every}) > 1
        self.marked = self._marked(marks)

    def _fewer(self, lanes: list) -> list:
        """The lanes of as many CTAs as fit: from the end where an error is, else from the start."""
        if len(lanes) <= MOST_LANES:
            return lanes
        ctas = list(dict.fromkeys(cta for cta, _ in lanes))
        last = max(self.trace.events, key=lambda event: event.end).cta
        order = sorted(ctas, key=lambda cta: (cta >= 0, cta != last if self.at is not None else False))
        kept, room = [], MOST_LANES
        for cta in order:
            mine = [lane for lane in lanes if lane[0] == cta]
            if kept and len(mine) > room:
                break
            kept, room = kept + mine, room - len(mine)
        shown = len({cta for cta, _ in kept})
        self.left_out.append(f"{shown} of {len(ctas)} CTAs are drawn")
        return [lane for lane in lanes if lane in set(kept)]

    def _some(self, events: list[Event]) -> list[Event]:
        if len(events) <= self.most:
            return events
        ordered = sorted(events, key=lambda event: event.start)
        kept = ordered[:self.most] if self.at is None else ordered[-self.most:]
        self.left_out.append(f"{'the first' if self.at is None else 'the last'} {len(kept):,} of {len(events):,} events are drawn, "
                             f"{self.amount(kept[0].start)} to {self.amount(max(event.end for event in kept))}")
        return kept

    def _marked(self, marks: tuple[str, ...]) -> set[int]:
        """The numbers of the last events at the lines of a finding."""
        found: dict[tuple, int] = {}
        for number, event in enumerate(self.events):
            key = self.keys(event).split(" ")[0] if event.site else ""
            if key in marks and (key not in found or event.end >= self.events[found[key]].end):
                found[key] = number
        return set(found.values())

    def keys(self, event: Event) -> str:
        """The lines of an event; those of its whole task for a stretch of work, which is of no single line."""
        return self.lines.keys(event.site) if event.site is not None else self.tasks.get(event.lane, "")

    def amount(self, time: float) -> str:
        """A time for people, with its unit."""
        return f"{time:,.4g} {self.unit}" if time < 1000 else f"{time:,.0f} {self.unit}"

    def name(self, lane: tuple[int, str]) -> str:
        cta, name = lane
        return f"{self.trace.place(cta)} / {name}" if self.several and cta >= 0 and not name.startswith("cta ") else name

    @property
    def left_out_text(self) -> str:
        return f"{'; '.join(self.left_out)}." if self.left_out else ""

    # ---- data -------------------------------------------------------------------------------------------------------

    def data(self, labels: dict[str, int], sets: dict[str, int]) -> dict:
        """The data of the pane for the page's JavaScript. `labels` and sets of lines are numbered in the dictionaries, which
        the runs of a page share."""
        kinds = list(KINDS)
        rows = [[self.number[event.cta, event.lane], kinds.index(event.kind), self.rounded(event.start - self.start),
                 self.rounded(event.end - event.start), labels.setdefault(event.label, len(labels)),
                 sets.setdefault(self.keys(event), len(sets)), event.bytes] for event in self.events]
        wholes = sorted({sets[self.keys(event)] for event in self.events if event.site is None})
        lanes = [{"name": self.name(lane), "busy": round(busy, 4), "keys": self.tasks.get(lane[1], ""), "cta": lane[0]}
                 for lane, busy in zip(self.lanes, self.busy)]
        return {"unit": self.unit, "start": self.rounded(self.start), "end": self.rounded(self.end - self.start),
                "at": None if self.at is None else self.rounded(self.at - self.start), "lanes": lanes,
                "wholes": wholes, "events": rows, "marked": sorted(self.marked), "left": self.left,
                "left_out": self.left_out_text, "length": self.amount(self.end)}

    @staticmethod
    def rounded(number: float) -> float:
        return float(f"{number:.7g}")

    # ---- the drawing ------------------------------------------------------------------------------------------------

    @property
    def left(self) -> float:
        """The width of the lanes' names."""
        return min(190.0, max([70.0, *(svg.text_width(self.name(lane), 11.5) + 18 for lane in self.lanes)]))

    def svg(self) -> str:
        """The whole time at one width."""
        plot = WIDTH - self.left - SHARE
        scale = plot / (self.end - self.start) if self.end > self.start else 0.0
        height = TOP + ROW * len(self.lanes) + 4
        body = self._axis(scale, height)
        for number, lane in enumerate(self.lanes):
            body += self._row(number, lane, plot)
        body += "".join(self._bars(scale))
        if self.at is not None:
            x = self.left + (self.at - self.start) * scale
            body += svg.element("path", class_="found", d=f"M{x:.1f} {TOP - 6:.1f} V{height - 4:.1f}")
        name = escape(f"Timeline: {len(self.lanes)} lanes, {self.amount(self.end - self.start)}")
        return f'<svg class="lanes" role="img" aria-label="{name}" viewBox="0 0 {WIDTH:.0f} {height:.0f}">{body}</svg>'

    def _axis(self, scale: float, height: float) -> str:
        drawn = ""
        for tick in svg.ticks(self.end - self.start, 8):
            x = self.left + tick * scale
            drawn += svg.element("line", class_="rule", x1=x, x2=x, y1=TOP - 4, y2=height - 4)
            drawn += svg.element("text", f"{self.start + tick:,.10g}", class_="tick", x=x, y=TOP - 8, text_anchor="middle")
        return drawn + svg.element("text", "busy", class_="tick", x=WIDTH - 2, y=TOP - 8, text_anchor="end")

    def _row(self, number: int, lane: tuple[int, str], plot: float) -> str:
        y, name = TOP + ROW * number, self.name(lane)
        rule = svg.element("line", class_="rule", x1=0.0, x2=WIDTH, y1=y, y2=y) if number and (
            self.lanes[number - 1][0] != lane[0]) else ""
        return (rule + svg.element("rect", class_="lane", x=self.left, y=y + (ROW - BAR) / 2, width=plot, height=BAR)
                + svg.element("text", escape(svg.fitted(name, self.left - 10, 11.5)) + svg.tooltip(name), class_="name",
                              x=self.left - 8, y=y + ROW / 2 + 4, text_anchor="end")
                + svg.element("text", f"{100 * self.busy[number]:.0f} %", class_="share", x=WIDTH - 2, y=y + ROW / 2 + 4,
                              text_anchor="end"))

    def _bars(self, scale: float) -> Iterator[str]:
        pieces = list(self._pieces(scale))
        for lane, kind, x, width, events in pieces:
            y = TOP + ROW * lane + (ROW - BAR) / 2
            tip = svg.tooltip(self.tip(events)) if len(pieces) <= _TIPS else ""
            mark = " hit" if any(number in self.marked for number, _ in events) else " thin" if width < _THIN else ""
            yield svg.element("rect", tip, class_=f"ev k-{kind}{mark}", x=round(x, 1), y=y, width=round(width, 1), height=BAR)
            words = svg.fitted(events[0][1].label, width - 8, 10.5) if len(events) == 1 and kind != "pipe" else ""
            if words:
                yield svg.element("text", escape(words), class_=f"in i-{kind}", x=round(x + 4, 1), y=y + BAR / 2 + 3.6)

    def _pieces(self, scale: float) -> Iterator[tuple]:
        """(lane, kind, x, width, numbered events): one event each, or neighbours that are too short to see, by their longest
        kind."""
        for lane, mine in groupby(enumerate(self.events), key=lambda pair: self.number[pair[1].cta, pair[1].lane]):
            thin: list = []
            for number, event in mine:
                x, width = self.left + (event.start - self.start) * scale, (event.end - event.start) * scale
                if width < _LEAST and event.kind != "pipe" and number not in self.marked:
                    if thin and x - thin[-1][0] > _LEAST:
                        yield self._together(lane, thin)
                        thin = []
                    thin.append((x, width, (number, event)))
                    continue
                if thin:
                    yield self._together(lane, thin)
                    thin = []
                yield lane, event.kind, x, max(width, _LEAST), [(number, event)]
            if thin:
                yield self._together(lane, thin)

    @staticmethod
    def _together(lane: int, thin: list) -> tuple:
        times: dict[str, float] = {}
        for _, width, (_, event) in thin:
            times[event.kind] = times.get(event.kind, 0.0) + width
        x = thin[0][0]
        return lane, max(times, key=times.__getitem__), x, max(_LEAST, thin[-1][0] + thin[-1][1] - x), [one for *_, one in thin]

    def tip(self, events: list[tuple[int, Event]]) -> str:
        first, last = events[0][1], events[-1][1]
        if len(events) > 1:
            return f"{len(events)} events, {self.amount(first.start)} to {self.amount(last.end)}"
        size = f"\n{first.bytes:,} bytes" if first.bytes else ""
        where = f"\n{first.site.file.rpartition('/')[2]}:{first.site.line}" if first.site else ""
        return (f"{first.label}\n{KINDS.get(first.kind, first.kind)}, {first.start:,.10g} to {self.amount(first.end)} "
                f"({self.amount(first.end - first.start)}){size}{where}")


def waited_lines(trace: Trace, lines: Lines) -> dict[str, float]:
    """The largest share of its CTA's time that a task waits at each line, by key of the line."""
    times: dict[tuple, float] = {}
    first: dict[int, float] = {}
    last: dict[int, float] = {}
    for event in trace.events:
        first[event.cta] = min(event.start, first.get(event.cta, event.start))
        last[event.cta] = max(event.end, last.get(event.cta, event.end))
        if event.kind == "wait" and event.site is not None:
            for key in lines.keys(event.site).split():
                place = event.cta, event.lane, key
                times[place] = times.get(place, 0.0) + event.end - event.start
    found: dict[str, float] = {}
    for (cta, _, key), time in times.items():
        whole = last[cta] - first[cta]
        found[key] = max(found.get(key, 0.0), time / whole if whole else 0.0)
    return found
