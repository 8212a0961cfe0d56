"""The times of many forms of one kernel, at the price of a few predictions, in as many processes as MIMW_JOBS says.

Input: a `Plain` launch and `Written` forms of it. Output: predicted microseconds, None where nothing can be predicted. For example:

    plain, about = ranked(plain, ones)      762.4, [1410.2, 1790.0, ...]: one short run for each form (`timing.predict.rough`)
    predictions(close(about, ones))         [1619.6, ...]: those that are worth it, as `mimw.predict` has them

A short run is within some tenths of a prediction, and of two forms of one kernel it says which is quicker, as both are told of the
same clock: in all kernels of benchmarks/notes/orchestrate-search.md the form with the best prediction was within 2 % of the best of
the short runs. Those within `CLOSE` are predicted. Half of a short run says which bytes programs share in L2: forms that load the
same tiles in the same order are asked once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf
from typing import Any, TypeVar

from ...compiler.orchestrate.plan import Plan
from ...errors import MimwError, TargetError
from ..search.processes import Crew, job_count
from ..timing.predict import first_asked, rough, timed
from .plain import Plain
from .written import Written

CLOSE, MOST = 1.03, 2       # over the best short run; forms that are predicted
FEW = 2                     # forms that are predicted at once, without a short run

T = TypeVar("T")


def ranked(plain: Plain, ones: Sequence[Written]) -> tuple[float | None, list[float | None]]:
    """(predicted microseconds of the plain kernel, those of a short run of each form at the plain kernel's clock)."""
    found, clock = _or_none(lambda: timed(plain.author, plain.chip)) or (None, None)
    alike: dict[Plan, list[int]] = {}
    for at, one in enumerate(ones):
        alike.setdefault(_loads(one.plan), []).append(at)
    firsts = [ats[0] for ats in alike.values() if len(ats) > 1]
    shares = dict(zip(firsts, _shares([ones[at] for at in firsts])))
    known = {at: shares.get(ats[0]) for ats in alike.values() for at in ats}
    return found, _each(len(ones), lambda at: _or_none(lambda: rough(ones[at].launch(), plain.chip, clock, known[at])))


def _shares(ones: Sequence[Written]) -> list[float | None]:
    """`first_asked` of each form; of none, if it has no answer for the first: the others have the same loads by pointers."""
    def share(one: Written) -> float | None:
        return _or_none(lambda: first_asked(one.launch(), one.plain.chip))

    first = share(ones[0]) if ones else None
    return [] if first is None else [first, *_each(len(ones) - 1, lambda at: share(ones[1 + at]))]


def _loads(plan: Plan) -> Plan:
    """A plan that loads the same tiles in the same order: who multiplies them, when, and how results leave does not matter."""
    return replace(plan, consumers=1, warps=None, delayed=True, stores=False, pingpong=False)


def predictions(ones: Sequence[Any]) -> list[float | None]:
    """The predicted microseconds of each form."""
    return _each(len(ones), lambda at: _or_none(lambda: timed(ones[at].launch(), ones[at].plain.chip)[0]))


def close(times: Sequence[float | None]) -> list[int]:
    """The numbers of the forms that are worth a prediction, by their short runs, the best one first."""
    order = sorted(range(len(times)), key=lambda at: inf if times[at] is None else times[at])
    best = times[order[0]] if order else None
    return [at for at in order if best is None or times[at] is not None and times[at] <= CLOSE * best][:MOST]


def _each(count: int, run: Callable[[int], T]) -> list[T]:
    return list(Crew(count, run, job_count(None))) if count else []


def _or_none(function: Callable[[], T]) -> T | None:
    """The result; None where a launch cannot be predicted, for want of figures of the chip, or as its loops depend on data."""
    try:
        return function()
    except (TargetError, MimwError):
        return None
