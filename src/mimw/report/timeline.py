"""The timeline of a run: which lane worked and which lane waited, when, and on which source line.

Input: the `Trace` of a run and a title. Output: the picture as SVG. A page has one of its own (page/lanes.py). For example:

    timeline_svg(trace, "GEMM")        a row a lane, a bar an event, and at the right how busy the lane was (utilisation.py)
"""

from __future__ import annotations

from pathlib import PurePath

from ..ir.trace import Event, Trace
from . import svg
from .utilisation import all_shares, busy_share

# Distinct in grey and for the colour-blind: work is dark, waiting is pale.
_COLOURS = {"run": "#3b6fb6", "wait": "#e3e6eb", "copy": "#e08e2b", "dot": "#2f8f5b", "store": "#8a5bb0", "pipe": "#1f2430"}
_INK = {"run": "#ffffff", "wait": "#6b7280", "copy": "#1f2430", "dot": "#ffffff", "store": "#ffffff"}
_MEANING = {"run": "running", "wait": "waiting", "copy": "copy in flight", "dot": "tensor-core dot", "store": "store",
            "pipe": "commit or release of a pipe"}
_PLOT, _ROW, _BAR, _TOP, _RIGHT = 940.0, 30.0, 22.0, 84.0, 76.0


def timeline_svg(trace: Trace, title: str) -> str:
    """The run as a picture: a row a lane, a bar an event, and at the right how busy the lane was."""
    lanes = trace.lanes()
    names = [_lane_name(lane, lanes, trace) for lane in lanes]
    left = max([90.0, *(svg.text_width(name, 12) + 28 for name in names)])
    height = _TOP + _ROW * len(lanes) + 44
    scale = _PLOT / trace.end if trace.end else 0.0
    body = svg.text(16, 27, title, 16, font_weight=600) + _legend(trace, left) + _axis(trace, scale, left, len(lanes))
    shares = all_shares(trace)
    for number, (lane, name) in enumerate(zip(lanes, names, strict=True)):
        body += _lane(trace, lane, name, busy_share(shares[lane]), _TOP + _ROW * number, scale, left)
    return svg.document(left + _PLOT + _RIGHT, height, body, class_="timeline", data_left=left, data_plot=_PLOT,
                        data_end=float(trace.end))


def _lane_name(lane: tuple[int, str], lanes: list[tuple[int, str]], trace: Trace) -> str:
    cta, name = lane
    several = len({cta for cta, _ in lanes}) > 1
    return f"{trace.place(cta)} / {name}" if several and not name.startswith("cta ") else name


def _legend(trace: Trace, left: float) -> str:
    kinds = {event.kind for event in trace.events}
    x, drawn = left, ""
    for kind, meaning in _MEANING.items():
        if kind in kinds:
            drawn += svg.rectangle(x, 42, 12, 12, _COLOURS[kind], rx=2) + svg.text(x + 18, 52, meaning, 12, fill=svg.QUIET)
            x += 18 + svg.text_width(meaning, 12) + 22
    return drawn


def _axis(trace: Trace, scale: float, left: float, lanes: int) -> str:
    bottom = _TOP + _ROW * lanes + 4
    drawn = ""
    for tick in svg.ticks(trace.end):
        x = left + tick * scale
        drawn += svg.line(x, _TOP - 6, x, bottom) + svg.text(x, bottom + 16, f"{tick:,.10g}", 11, "middle", svg.QUIET)
    ends = svg.text(left + _PLOT, bottom + 33, trace.unit, 11, "end", svg.QUIET)
    head = svg.text(left + _PLOT + _RIGHT - 14, _TOP - 12, "busy", 11, "end", svg.QUIET)
    return svg.element("g", drawn, class_="axis", data_top=_TOP - 6, data_bottom=bottom) + ends + head


def _lane(trace: Trace, lane: tuple[int, str], name: str, share: float, y: float, scale: float, left: float) -> str:
    events = [event for event in trace.events if (event.cta, event.lane) == lane]
    bars = "".join(_bar(event, trace.unit, y + (_ROW - _BAR) / 2, scale, left) for event in events)
    middle = y + _ROW / 2 + 4
    return (svg.rectangle(left, y + (_ROW - _BAR) / 2, _PLOT, _BAR, "#f8f9fb") + svg.text(left - 12, middle, name, 12, "end")
            + bars + svg.text(left + _PLOT + _RIGHT - 14, middle, f"{100 * share:.0f} %", 12, "end",
                              font_weight=600))


def _bar(event: Event, unit: str, y: float, scale: float, left: float) -> str:
    x, width = left + event.start * scale, max(0.6, (event.end - event.start) * scale)
    words = svg.fitted(event.label, width - 8, 10.5)
    inside = svg.tooltip(_tip(event, unit))
    inside += svg.rectangle(x, y, width, _BAR, _COLOURS.get(event.kind, svg.QUIET), rx=2, stroke="#ffffff",
                            stroke_width=0.6)
    inside += svg.text(x + 4, y + _BAR / 2 + 4, words, 10.5, fill=_INK.get(event.kind, svg.INK), pointer_events="none")
    return svg.element("g", inside, class_="event", data_start=float(event.start), data_end=float(event.end),
                       data_label=event.label)


def _tip(event: Event, unit: str) -> str:
    lines = [event.label, f"{_MEANING.get(event.kind, event.kind)}, {event.start:,.10g} to {event.end:,.10g} "
             f"({event.end - event.start:,.10g} {unit})"]
    if event.bytes:
        lines.append(f"{event.bytes:,} bytes")
    if event.site is not None:
        lines.append(f"{PurePath(event.site.file).name}:{event.site.line}")
    return "\n".join(lines)
