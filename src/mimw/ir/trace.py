"""Timeline of a run: one event per stretch of time in which a task, a copy or a dot was busy or waiting.

Input: events, from a simulated, predicted or measured run. Output: lanes and their events, for reports. For example:

    Trace([Event(0, "load", "wait", 120.0, 480.0, "'free'[0] parity 1")]).lanes()      [(0, "load")]

Times are in `Trace.unit`: the simulator's abstract cycles, or microseconds of a prediction or a measurement. Events of one lane
never overlap; lanes are tasks (`cta 0 / load`) and the units that work on their own (`cta 0 / TMA`, `cta 0 / tensor core`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .site import Site

BY_PRODUCTS = ", by tcgen05"        # ends the label of a wait for a barrier on which products in tensor memory arrive


@dataclass(frozen=True)
class Event:
    """`kind` is run, wait (blocked on a barrier or group), copy (a transfer in flight), dot (tensor-core work) or store; of a
    task, copy, dot and store are the time that it takes to start them. pipe is a moment, not a stretch: a commit or release."""

    cta: int
    lane: str
    kind: str
    start: float
    end: float
    label: str
    site: Site | None = None
    bytes: int = 0


LINKS = -1      # in place of a CTA's number: what goes from one GPU to another


@dataclass
class Trace:
    """All events of one run, in the order they ended, and the lanes in the order they first appeared. `ranks` says on which GPU
    each CTA ran, where there are several."""

    events: list[Event] = field(default_factory=list)
    unit: str = "cycles"
    ranks: dict[int, int] = field(default_factory=dict)

    def lanes(self) -> list[tuple[int, str]]:
        return list(dict.fromkeys((event.cta, event.lane) for event in sorted(self.events, key=lambda e: (e.cta, e.start))))

    def place(self, cta: int) -> str:
        """The first part of a lane's name: "cta 3", "rank 1, cta 3", or "links"."""
        if cta == LINKS:
            return "links"
        return f"rank {self.ranks[cta]}, cta {cta}" if cta in self.ranks else f"cta {cta}"

    @property
    def end(self) -> float:
        return max((event.end for event in self.events), default=0.0)
