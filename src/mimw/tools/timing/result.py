"""What a predicted and a measured timeline have in common: a trace, its time, its tables and pictures.

Input: a trace in microseconds. Output: shares, waits, JSON and pictures. For example:

    timeline.bubbles()[0]                 the longest waits: of which task, for what, at which line
    timeline.write("timeline.html")
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ...ir import Program
from ...ir.shown import Shown
from ...ir.trace import Trace
from ...report import chrome_trace, timeline_svg
from ...report.table import Table
from ...report.utilisation import Bubble, all_shares, bubbles, busy_share, utilisation_table
from ...runtime.fits import AsCompiled
from ...target import Target

DRAWN = 4000
WAITS = 12      # of the table on the page


@dataclass(frozen=True)
class Timeline(Shown):
    """A launch in time.

    name          the kernel's
    grid          programs of the launch
    microseconds  of the whole kernel
    megahertz     the SM clock that the times belong to
    trace         events of some CTAs, in microseconds
    program       the kernel, and `target` its chip, for the page; `memory()` is its shared memory as it is compiled
    """

    name: str
    grid: tuple[int, ...]
    microseconds: float
    megahertz: float
    trace: Trace
    program: Program | None = field(default=None, kw_only=True, compare=False, repr=False)
    target: Target | None = field(default=None, kw_only=True, compare=False, repr=False)
    memory: Callable[[], AsCompiled | None] = field(default=lambda: None, kw_only=True, compare=False, repr=False)

    @property
    def title(self) -> str:
        return f"{self.name} on grid {self.grid}: {self.microseconds:,.1f} us at {self.megahertz:,.0f} MHz"

    def utilisation(self) -> dict[str, dict[str, float]]:
        """Lane -> kind of event -> its share of its CTA's time, averaged over the CTAs that have such a lane."""
        found: dict[str, list[dict[str, float]]] = {}
        shares = all_shares(self.trace)
        for lane in self.trace.lanes():
            found.setdefault(lane[1], []).append(shares[lane])
        kinds = {lane: {kind for row in rows for kind in row} for lane, rows in found.items()}
        return {lane: {kind: sum(row.get(kind, 0.0) for row in rows) / len(rows) for kind in sorted(kinds[lane])}
                for lane, rows in found.items()}

    def busy(self) -> dict[str, float]:
        """Lane -> how busy it was, averaged over CTAs: the share of its CTA's time in which it ran, copied or computed."""
        return {lane: busy_share(row) for lane, row in self.utilisation().items()}

    def bubbles(self) -> list[Bubble]:
        """The waits of each task by line and by what it waited for: how often and how long, longest first."""
        return bubbles(self.trace)

    def as_json(self) -> dict:
        """The figures as plain data, for `mimw timeline --json`. On several GPUs each wait has its `rank`; programs are numbered
        through the ranks."""
        ranks = self.trace.ranks
        lost = [({"rank": ranks[bubble.lane[0]]} if bubble.lane[0] in ranks else {})
                | {"cta": bubble.lane[0], "lane": bubble.lane[1], "for": bubble.what, "microseconds": bubble.time,
                   "times": bubble.times, "line": str(bubble.site) if bubble.site else None} for bubble in self.bubbles()]
        return {"kernel": self.name, "grid": list(self.grid), "microseconds": self.microseconds, "megahertz": self.megahertz,
                "utilisation": self.utilisation(), "waits": lost}

    def write(self, path: str | Path, most: int = DRAWN) -> None:
        """Draw the timeline as the suffix says: .json (Chrome trace, for Perfetto) with everything; .html, the page of `save_html`;
        .svg with at most the first `most` events."""
        if Path(path).suffix == ".json":
            Path(path).write_text(chrome_trace(self.trace, self.title))
            return
        if Path(path).suffix != ".svg":
            self.save_html(path)
            return
        shown, title = self.trace, self.title
        if len(shown.events) > most:
            shown = Trace(sorted(shown.events, key=lambda event: event.start)[:most], shown.unit)
            title += f" (the first {shown.end:,.1f} us)"
        Path(path).write_text(timeline_svg(shown, title))

    def _page(self):
        from ...report.page import Page

        waits = tuple((bubble.lane[1], bubble.what, f"{bubble.time:,.4g}", bubble.times, str(bubble.site or ""))
                      for bubble in self.bubbles()[:WAITS])
        table = Table(("task", "waits for", "us", "times", "at"), waits, ("us", "times"))
        memory = self.memory()
        shared = {} if memory is None else {"rows": memory.rows, "shared": memory.total}
        return Page(self.name, (f"grid {self.grid}", f"{self.microseconds:,.1f} us", f"{self.megahertz:,.0f} MHz"),
                    program=self.program, target=self.target, trace=self.trace, no_trace="No task did anything that takes time.",
                    tables=(("Longest waits", table), ) if waits else (), **shared)

    def __str__(self) -> str:
        return f"{self.title}\n{utilisation_table(self.trace)}" if self.trace.events else self.title
