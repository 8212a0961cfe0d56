"""What a predicted and a measured timeline have in common: a trace, its time, its tables and pictures.

Input: a trace in microseconds. Output: shares, waits, JSON and pictures. For example:

    timeline.bubbles()[0]                 the longest waits: of which task, for what, at which line
    timeline.write("timeline.html")
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..report import chrome_trace, timeline_html, timeline_svg
from ..report.utilisation import Bubble, bubbles, shares, utilisation_table
from ..trace import Trace

DRAWN = 4000


@dataclass(frozen=True)
class Timeline:
    """A launch in time.

    name          the kernel's
    grid          programs of the launch
    microseconds  of the whole kernel
    megahertz     the SM clock that the times belong to
    trace         events of some CTAs, in microseconds
    """

    name: str
    grid: tuple[int, ...]
    microseconds: float
    megahertz: float
    trace: Trace

    @property
    def title(self) -> str:
        return f"{self.name} on grid {self.grid}: {self.microseconds:,.1f} us at {self.megahertz:,.0f} MHz"

    def utilisation(self) -> dict[str, dict[str, float]]:
        """Lane -> kind of event -> its share of the lane's time, averaged over the CTAs that have such a lane."""
        found: dict[str, list[dict[str, float]]] = {}
        for cta, lane in self.trace.lanes():
            found.setdefault(lane, []).append(shares(self.trace, (cta, lane)))
        kinds = {lane: {kind for row in rows for kind in row} for lane, rows in found.items()}
        return {lane: {kind: sum(row.get(kind, 0.0) for row in rows) / len(rows) for kind in sorted(kinds[lane])}
                for lane, rows in found.items()}

    def busy(self) -> dict[str, float]:
        """Lane -> share of its time in which it did not wait."""
        return {lane: sum(share for kind, share in row.items() if kind != "wait") for lane, row in self.utilisation().items()}

    def bubbles(self) -> list[Bubble]:
        """Who waited for what at which line, how often and how long, longest first."""
        return bubbles(self.trace)

    def as_json(self) -> dict:
        """The figures as plain data, for `mimw timeline --json`."""
        lost = [{"cta": bubble.lane[0], "lane": bubble.lane[1], "for": bubble.what, "microseconds": bubble.time,
                 "times": bubble.times, "line": str(bubble.site) if bubble.site else None} for bubble in self.bubbles()]
        return {"kernel": self.name, "grid": list(self.grid), "microseconds": self.microseconds, "megahertz": self.megahertz,
                "utilisation": self.utilisation(), "waits": lost}

    def write(self, path: str | Path, most: int = DRAWN) -> None:
        """Draw the timeline as the suffix says: .json (Chrome trace, for Perfetto) with everything; .html or .svg with at most
        the first `most` events, as many as a browser likes to draw."""
        if Path(path).suffix == ".json":
            Path(path).write_text(chrome_trace(self.trace, self.title))
            return
        shown, title = self.trace, self.title
        if len(shown.events) > most:
            shown = Trace(sorted(shown.events, key=lambda event: event.start)[:most], shown.unit)
            title += f" (the first {shown.end:,.1f} us)"
        Path(path).write_text((timeline_svg if Path(path).suffix == ".svg" else timeline_html)(shown, title))

    def __str__(self) -> str:
        return f"{self.title}\n{utilisation_table(self.trace)}"
