"""What one run has shown, as plain data that a worker process hands to the process that reports.

Input: the error in which a run ended, or None. Output: an outcome, and findings. For example:

    outcome_of(error, seed, grid, ops)
    same(error)                             equal for errors that are one finding
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from ...errors import DataRace, MimwError, SimulationError
from ..findings import Finding
from ..trials import is_about_the_protocol
from .results import Seen


@dataclass(frozen=True)
class Outcome:
    """One run: the simulated operations of a run that came to its end; or the finding, what makes it the same as another one,
    whether it is a deadlock in a phase that is the right one, and whether it is about waits and arrivals (`trials`); what was seen
    of its results."""

    ops: int = 0
    finding: Finding | None = None
    what: tuple = ()
    begun: bool = False
    of_protocol: bool = False
    seen: Seen = Seen()


def outcome_of(error: SimulationError | None, seed, grid, ops: int = 0, ctas: tuple = (), seen: Seen = Seen()) -> Outcome:
    if error is None:
        return Outcome(ops, seen=seen)
    return Outcome(0, finding_of(error, seed, grid, ctas), same(error), bool(getattr(error, "begun", False)),
                   is_about_the_protocol(error), seen)


def same(error) -> tuple[str, tuple[str, ...]]:
    """Two errors that are the same here are one finding; a race is the same whichever access came first."""
    sites = tuple(map(str, error.sites[:2]))
    return ("DataRace", tuple(sorted(sites))) if isinstance(error, DataRace) else (type(error).__name__, sites)


def kinds_of(kind: type) -> tuple[str, ...]:
    ours = itertools.takewhile(lambda one: one is not MimwError, kind.__mro__)
    return tuple(one.__name__ for one in ours)


def finding_of(error, seed, grid, ctas: tuple = ()) -> Finding:
    """`ctas` are the clusters that ran, each as the program ids of its CTAs; () is all."""
    return Finding(type(error).__name__, error.message, error.sites, error.hint, kinds_of(type(error)), seed, tuple(grid),
                   ctas=tuple(index for cluster in ctas for index in cluster))
