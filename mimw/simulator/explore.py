"""Every interleaving that can matter, once: partial-order reduction over the schedules of a launch.

Two steps are dependent if they act on one barrier or atomic in a way that does not commute. After a run, each pair of
dependent steps that nothing orders is tried the other way round in a further run (Flanagan and Godefroid, "Dynamic
partial-order reduction", POPL 2005). Plain accesses need no trying: if they are not ordered, that is a `DataRace` in any
run. So a kernel that synchronises by barriers alone, and is right, takes one run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from .clocks import join
from .guide import Guide, Schedule, Step

ARRIVE, WAIT, READ, WRITE = "arrive", "wait", "read", "write"


@dataclass
class _Node:
    """What is left to try at one depth of the current path."""

    done: set[int] = field(default_factory=set)
    wanted: set[int] = field(default_factory=set)


def explore(run: Callable[[Guide], None], limit: int) -> Iterator[Guide]:
    """Run after run, each by another schedule, until all are covered or `limit` runs are done; gives the guide of each.

    `run` executes the launch by a guide and deals with its errors. Covered means that the iteration ends before `limit`.
    """
    path: list[_Node] = []
    schedule: Schedule = ()
    for _ in range(limit):
        guide = Guide(schedule)
        run(guide)
        yield guide
        steps = guide.steps
        path += [_Node() for _ in steps[len(path):]]
        for node, step in zip(path, steps):
            node.done.add(step.choice)
        _find_reversals(steps, path)
        while path and not path[-1].wanted - path[-1].done:
            path.pop()
        if not path:
            return
        depth = len(path) - 1
        choice = min(path[depth].wanted - path[depth].done)
        kept = [(at, step.choice) for at, step in enumerate(steps[:depth]) if step.choice != step.usual]
        schedule = (*kept, (depth, choice))


def schedule_of(steps: list[Step]) -> Schedule:
    """What a run departed from the usual choices in."""
    return tuple((at, step.choice) for at, step in enumerate(steps) if step.choice != step.usual)


def _find_reversals(steps: list[Step], path: list[_Node]) -> None:
    """Mark at which depths another actor should be tried."""
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
                        _want(path[other], steps[other], step.actor)
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


def _want(node: _Node, step: Step, actor) -> None:
    if actor in step.enabled:
        node.wanted.add(step.enabled.index(actor))
    else:
        node.wanted.update(range(len(step.enabled)))
