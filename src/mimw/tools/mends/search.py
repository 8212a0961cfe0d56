"""The search for a mend: small changes of the source, the likely ones first, until a check of the changed kernel finds nothing.

Input: a kernel, what was found in it, and a function that checks a kernel. Output: a `Mend`, or None. For example:

    mend_for(row_sums, report.findings, look, seconds=10).text
        "ring.py:18: write `phase` for `phase ^ 1`; the wait for `full[slot]` names the wrong parity"

Why a search, and not an edit that each kind of finding brings along: a finding is where two tasks meet, and the mistake mostly
stands elsewhere. A wait that is gone shows as a race on one seed and as a missed phase on another, each with a mend of its own that
would not help. A changed kernel is recorded and run in milliseconds, so every change is tried, and none is printed that does not
help.

A clean check does not say that the result is right. So changes only add, move or alter synchronisation, and what takes a word away
is tried late; where the launch has expected results, these are part of the check; else two changes that check as clean and compute
different results are both printed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations, islice
from typing import Any

from .candidate import Candidate, Clues
from .changes import changes
from .edits import Mend, diff, edited
from .kernel_source import KernelSource, source_of
from .listing import Listing
from .missing import missing
from .moves import moves

PAIRED = 40     # of the likeliest changes, of which two are tried at a time where none alone is clean
NEAR = 0.5      # of cost: a clean change that costs no more than so much beyond the first is told besides, if its result differs
OTHERS = 2      # of them that are told
FURTHER = 12    # changes that are tried for that


def mend_for(kernel: Any, findings: Sequence[Any], look: Callable[[Any, bool], Any], seconds: float,
             result: Callable[[Any], bytes] | None = None, most: int | None = None) -> Mend | None:
    """The likeliest change with which `look` finds nothing; else one with which less is found; None if there is none.

    args:      look     look(kernel, whole) gives the findings of a kernel, by a first look or the whole check; it may raise
               seconds  no change is tried after so long
               most     so many changes are tried
               result   what a kernel computes, to tell changes that check as clean apart
    """
    with source_of(kernel) as source:
        if source is None:
            return None
        search = _Search(source, findings, look, time.monotonic() + seconds, result)
        return search.best(most)


class _Search:

    def __init__(self, source: KernelSource, findings, look, deadline: float, result):
        self.source, self.findings, self.look, self.deadline, self.result = source, findings, look, deadline, result
        self.clues = Clues(findings, source.path)
        self.better: tuple[int, Candidate] | None = None        # with which least is found, and how much

    def best(self, most: int | None) -> Mend | None:
        """The likeliest change that is clean; else, if all are asked for, the likeliest two; else one with which less is found."""
        ordered = self._ordered()
        mend = self._first_clean(islice(ordered, most))
        if mend is None and most is None:
            mend = self._first_clean(self._pairs(ordered[:PAIRED]))
        return mend or (self._mend(self.better[1], self.better[0]) if self.better else None)

    def _first_clean(self, candidates: Iterable[Candidate]) -> Mend | None:
        chosen, cost, results, others, further = None, 0.0, set(), [], 0
        for candidate in candidates:
            further += chosen is not None
            far = chosen is not None and self._cost(candidate) > cost + NEAR
            if time.monotonic() > self.deadline or far or further > FURTHER or len(others) >= OTHERS:
                break
            computed = self._clean(candidate)
            if computed is None:
                continue
            if chosen is None:
                chosen, cost = candidate, self._cost(candidate)
            elif computed not in results:
                others.append(candidate.text)
            results.add(computed)
            if self.result is None:
                break
        return None if chosen is None else self._mend(chosen, 0, tuple(others))

    def _mend(self, candidate: Candidate, left: int, others: tuple[str, ...] = ()) -> Mend:
        text = edited(self.source.text, candidate.edits)
        return Mend(candidate.text, candidate.edits, left, others, diff(self.source.path, self.source.text, text))

    def _cost(self, candidate: Candidate) -> float:
        return self.clues.cost(candidate)

    def _ordered(self) -> list[Candidate]:
        """Every change once, the likeliest first."""
        listing, found = Listing(self.source), {self.source.text: None}
        every = [one for make in (changes, moves, missing) for one in make(listing, self.clues)]
        for candidate in sorted(every, key=self._cost):
            found.setdefault(edited(self.source.text, candidate.edits), candidate)
        return [candidate for candidate in found.values() if candidate is not None]

    def _pairs(self, candidates: list[Candidate]) -> list[Candidate]:
        """Two changes of different lines at a time, the likeliest first: of two mistakes neither is mended alone."""
        pairs = [Candidate(f"{one.text}; and {other.text}", one.edits + other.edits, one.cost + other.cost, one.names + other.names)
                 for one, other in combinations(candidates, 2) if _lines(one).isdisjoint(_lines(other))]
        return sorted(pairs, key=self._cost)

    def _clean(self, candidate: Candidate) -> bytes | None:
        """The results of the kernel with a change, if the check finds nothing in it."""
        try:
            kernel = self.source.remade(edited(self.source.text, candidate.edits))
            found = None if self.look(kernel, False) else self.look(kernel, True)
            computed = self.result(kernel) if self.result and found is not None and not found else b""
        except Exception:       # a kernel that cannot be: the change was none
            return None
        if found and len(found) < len(self.findings) and (self.better is None or len(found) < self.better[0]):
            self.better = len(found), candidate
        return None if found or found is None else computed


def _lines(candidate: Candidate) -> set[int]:
    return {line for edit in candidate.edits for line in range(edit.line, edit.last + 1)}
