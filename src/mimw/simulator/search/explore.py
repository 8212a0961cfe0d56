"""Every interleaving that can matter, once: partial-order reduction over the schedules of a launch.

Input: a function that runs the launch by a `Guide`, and how many runs there may be. Output: the guide of each run. For example:

    for guide in explore(run, 100): ...      () first, then ((12, 1), ), ...

Two steps are dependent if they act on one barrier or atomic in a way that does not commute. After a run, each pair of dependent
steps that nothing orders is tried the other way round in a further run (Flanagan and Godefroid, "Dynamic partial-order
reduction", POPL 2005). Plain accesses need no trying: two that are not ordered are a `DataRace` in any run. So a kernel that
synchronises by barriers alone, and is right, takes one run.

Schedules that depart least from the usual one come first (as in context bounding: Musuvathi and Qadeer, PLDI 2007), since most
mistakes need few departures. So a search that its limit cuts short has tried the likeliest schedules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heappop, heappush

from ..machine.guide import Guide, Schedule, Step
from ..memory_model.past import Past, Thing


def explore(run: Callable[[Guide], None], limit: int) -> Iterator[Guide]:
    """Run after run, each by another schedule, until all are covered or `limit` runs are done; gives the guide of each.

    `run` executes the launch by a guide and deals with its errors. Covered means that the iteration ends before `limit`.
    """
    waiting: list[tuple[int, Schedule]] = [(0, ())]
    seen: set[Schedule] = {()}
    for _ in range(limit):
        if not waiting:
            return
        guide = Guide(heappop(waiting)[1])
        run(guide)
        yield guide
        for schedule in _reversed(guide.steps):
            if schedule not in seen:
                seen.add(schedule)
                heappush(waiting, (len(schedule), schedule))


def schedule_of(steps: list[Step]) -> Schedule:
    """The choices of a run that were not the usual ones."""
    return tuple((at, step.choice) for at, step in enumerate(steps) if step.choice != step.usual)


def _reversed(steps: list[Step]) -> Iterator[Schedule]:
    """The schedules that go as this run did up to some step, and there let another actor go on."""
    departures = schedule_of(steps)
    for depth, choice in _reversals(steps):
        before = tuple(one for one in departures if one[0] < depth)
        if choice != steps[depth].choice:
            yield before if choice == steps[depth].usual else (*before, (depth, choice))


def _reversals(steps: list[Step]) -> Iterator[tuple[int, int]]:
    """(step, choice) pairs: where another actor should be tried, for two dependent steps that nothing orders.

    What comes before a step is a set of steps, kept as the bits of an integer."""
    known: dict[tuple, int] = {}              # actor -> what comes before its next step
    things: dict[object, Thing] = {}
    before: list = []
    clock = 0
    for index, step in enumerate(steps):
        came = step.came
        if came is None:
            came, before = set(step.enabled).difference(before), step.enabled
        for actor in came if index else ():
            known[actor] = known.get(actor, 0) | clock      # enabled by the step before, which therefore comes before it
        actor = step.actor
        clock = known.get(actor, 0)
        for name, mode, phase in step.touched:
            thing = things.get(name)
            if thing is None:
                thing = things[name] = Thing()
            other = max((past.last_of_others(actor) for past in thing.reversible(mode, phase)), default=-1)
            if other >= 0 and not clock >> other & 1:
                yield from ((other, choice) for choice in _choices(steps[other], actor))
            for past in thing.dependent(mode, phase):
                clock |= past.clock
        clock |= 1 << index
        this = Past(clock, index, actor)
        for name, mode, phase in step.touched:
            things[name].add(mode, phase, this)
        known[actor] = clock


def _choices(step: Step, actor) -> list[int]:
    """The choices to try at a step so that `actor` may come first: itself, or whoever could have been chosen if it could not
    yet."""
    enabled = list(step.enabled)
    return [enabled.index(actor)] if actor in enabled else list(range(len(enabled)))
