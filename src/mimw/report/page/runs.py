"""The timelines of several runs, one a finding, as one piece of data: common parts stand once.

Input: the runs with their `Lanes`. Output: plain data for JSON, from which the page draws the run that a reader chooses:

    runs_data([(1, lanes), (2, others)], told)
    {"labels": ["full", ...], "sets": ["0.18", ...], "runs": [
        {"note": 1, "events": [[0, 1, 0.0, 480.0, 0, 0, 0], ...], ...},
        {"note": 2, "events": [[0, 57], [0, 1, 511.0, 62.0, 0, 0, 0], ...], ...}]}

An event is a row of seven numbers. In a further run a pair, `[0, 57]`, stands for 57 events that are those of the first run from
number 0 on: interleavings of one kernel begin alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...ir.trace import Trace
from .lanes import BAR, KINDS, MOST_EVENTS, ROW, SHARE, TOP, Lanes

_LEAST_EVENTS = 1_000


@dataclass(frozen=True)
class Run:
    """A run of its own of the finding with the number `note`, which counts from 1; `at` is when it ended in the error."""

    note: int
    trace: Trace
    at: float | None = None


def most_events(number: int, runs: int) -> int:
    """The number of events that are kept of run `number`: all further runs together keep as many as the first."""
    return MOST_EVENTS if number == 0 else max(_LEAST_EVENTS, MOST_EVENTS // (runs - 1))


def runs_data(runs: Sequence[tuple[int, Lanes]], told: Sequence[Mapping[str, str]]) -> dict:
    """Everything that the page's JavaScript draws from; of each run the number of its finding (0: of none), and the texts beside
    lines (`told`)."""
    labels: dict[str, int] = {}
    sets: dict[str, int] = {}
    found = [{"note": note, "told": dict(said), **lanes.data(labels, sets)} for (note, lanes), said in zip(runs, told, strict=True)]
    for other in found[1:]:
        other["events"] = alike(found[0]["events"], other["events"])
    return {"kinds": list(KINDS.items()), "row": ROW, "bar": BAR, "top": TOP, "share": SHARE, "labels": list(labels),
            "sets": list(sets), "runs": found}


def alike(first: Sequence[list], events: Sequence[list]) -> list[list]:
    """`events` with `[number, count]` for stretches that are in `first` as well."""
    places = {tuple(event): number for number, event in enumerate(first)}
    found: list[list] = []
    for event in events:
        number = places.get(tuple(event))
        if number is None:
            found.append(event)
        elif found and len(found[-1]) == 2 and sum(found[-1]) == number:
            found[-1][1] += 1
        else:
            found.append([number, 1])
    return found
