"""Every interleaving that can matter, once: partial-order reduction over the schedules of a launch.

Two steps are dependent if they act on one barrier or atomic in a way that does not commute. After a run, each pair of
dependent steps that nothing orders is tried the other way round in a further run (Flanagan and Godefroid, "Dynamic
partial-order reduction", POPL 2005). Plain accesses need no trying: if they are not ordered, that is a `DataRace` in any
run. So a kernel that synchronises by barriers alone, and is right, takes one run.

Schedules that depart least from the usual one come first (as in context bounding: Musuvathi and Qadeer, PLDI 2007), since most
mistakes need few departures; so a search that its limit cuts short has seen what is likeliest to show one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heappop, heappush

from .clocks import join
from .guide import Guide, Schedule, Step

ARRIVE, WAIT, READ, WRITE = "arrive", "wait", "read", "write"


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
    """What a run departed from the usual choices in."""
    return tuple((at, step.choice) for at, step in enumerate(steps) if step.choice != step.usual)


def _reversed(steps: list[Step]) -> Iterator[Schedule]:
    """The schedules that go as this run did up to some step, and there let another actor go on."""
    departures = schedule_of(steps)
    for depth, choice in _reversals(steps):
        before = tuple(one for one in departures if one[0] < depth)
        if choice != steps[depth].choice:
            yield before if choice == steps[depth].usual else (*before, (depth, choice))


def _reversals(steps: list[Step]) -> Iterator[tuple[int, int]]:
    """(step, choice) pairs: where another actor should be tried, for two dependent steps that nothing orders."""
    clocks: dict[tuple, dict] = {}            # actor -> for each actor the last of its steps that comes before
    at_step: list[dict] = []
    history: dict[object, list[tuple[int, str, int]]] = {}
    before: set = set()
    for index, step in enumerate(steps):
        for actor in step.enabled:
            if actor not in before and index:     # enabled by the step before, which therefore comes before it
                join(clocks.setdefault(actor, {}), at_step[index - 1])
        before = set(step.enabled)
        clock = clocks.setdefault(step.actor, {})
        for thing, mode, phase in step.touched:
            past = history.setdefault(thing, [])
            for other, *earlier in reversed(past):
                if steps[other].actor != step.actor and _reversible(*earlier, mode, phase):
                    if clock.get(steps[other].actor, -1) < other:
                        yield from ((other, choice) for choice in _choices(steps[other], step.actor))
                    break
            for other, *earlier in past:
                if _dependent(*earlier, mode, phase):
                    join(clock, at_step[other])
        for thing, mode, phase in step.touched:
            history[thing].append((index, mode, phase))
        clock[step.actor] = index
        at_step.append(dict(clock))


def _dependent(earlier: str, before: int, mode: str, phase: int) -> bool:
    """Whether what happened on an object in one order comes before what follows, so that both orders differ."""
    if earlier == mode == ARRIVE:
        return before != phase
    return not (earlier == mode and mode in (WAIT, READ))


def _reversible(earlier: str, before: int, mode: str, phase: int) -> bool:
    """Whether the later of two dependent actions could have come first. A wait that passes in phase n cannot come before the
    arrivals of phase n - 1, which let it pass, and may come on either side of those of phase n, unless it ends."""
    if earlier == ARRIVE and mode == WAIT:
        return before < phase - 1
    return _dependent(earlier, before, mode, phase)


def _choices(step: Step, actor) -> list[int]:
    """What to try at a step so that `actor` may come first: itself, or whoever could have been chosen if it could not yet."""
    return [step.enabled.index(actor)] if actor in step.enabled else list(range(len(step.enabled)))
