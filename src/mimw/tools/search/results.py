"""The results of the runs of a check: held against what is expected, and looked at for elements that no program wrote.

Input: the launch as given and what is expected of it; then runs that came to their end. Output: a `WrongResult`, or what was seen.
For example:

    results = Results(launch, expectations(expected, tolerance, launch))
    writers = results.book(launch, whole=True)      for the hooks of a run, None where nothing would be learned from it
    error, seen = results.look(writers, clusters, whole=True)
    results.note(seen); results.said(...)           "results compared: 'y' is as expected in 8 runs"

Only runs of the launch as given count: nobody says what a smaller one should give.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...errors import WrongResult
from ...runtime.results import Expected, first_wrong, unwritten, wrong_result
from ...runtime.results.arrays import place
from ...runtime.simulate import Launch
from ...simulator import Writers


@dataclass(frozen=True)
class Seen:
    """One run: whether its results were compared, and were as expected; the sentences on what no program wrote, None if nobody
    looked; the arrays of barriers whose arrivals no wait came after, None of another launch."""

    compared: bool = False
    unwritten: tuple[str, ...] | None = None
    unawaited: tuple[str, ...] | None = None


class Results:
    """The results of the runs of one launch, as far as they were looked at."""

    def __init__(self, launch: Launch, wanted: Sequence[Expected]):
        self.launch, self.wanted = launch, wanted
        self.compared = 0
        self.unwritten: tuple[str, ...] | None = None
        self.unawaited: tuple[str, ...] | None = None

    def book(self, launch: Launch, whole: bool) -> Writers | None:
        """A book for the writers of a run; `whole`: with all tile data."""
        wanted = self.unwritten is None or self.wanted and whole
        return Writers() if launch is self.launch and wanted else None

    def look(self, writers: Writers | None, clusters: tuple, whole: bool) -> tuple[WrongResult | None, Seen]:
        """Look at the arrays after a run, of some clusters or, with (), of all."""
        if writers is None:
            return None, Seen()
        of_nobody = () if clusters else tuple(unwritten(self.launch, writers))
        self.unwritten = of_nobody
        if not (whole and self.wanted):
            return None, Seen(unwritten=of_nobody)
        wrong = first_wrong(self.wanted, (lambda one: _by_one_program(one, writers)) if clusters else lambda one: None)
        if wrong is None:
            return None, Seen(True, of_nobody)
        return wrong_result(wrong, self.launch.program, writers), Seen(unwritten=of_nobody)

    def note(self, seen: Seen) -> None:
        self.compared += seen.compared
        self.unwritten = seen.unwritten if self.unwritten is None else self.unwritten
        if seen.unawaited is not None:
            self.unawaited = tuple(sorted(one for one in seen.unawaited if self.unawaited is None or one in self.unawaited))

    def said(self, some: bool) -> str:
        """A sentence for the report; `some`: only a part of the grid ran."""
        if not self.wanted:
            return "results not compared: no `expected=` was given"
        if not self.compared:
            return "results not compared: no run with all tile data came to its end"
        names = ", ".join(dict.fromkeys(repr(one.name) for one in self.wanted))
        runs = f"{self.compared} run{'s' * (self.compared != 1)}"
        return f"results compared: {names} as expected in {runs}{', where the CTAs that ran have stored' if some else ''}"


def _by_one_program(expected: Expected, writers: Writers) -> np.ndarray:
    """The elements that a program of the sample stored; to what atomics add up, the others may belong."""
    plain = np.array([False, *(not writer.atomic for writer in writers.who)])
    return plain[writers.numbers(*place(expected.array))]
