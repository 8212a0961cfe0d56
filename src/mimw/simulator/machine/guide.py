"""A schedule that is written down, in place of a random one: which actor goes on at each step.

Input: a schedule, pairs (step, choice) at which a run departs from the plainest one. Output: the actor of each step, and a record
of each step. For example:

    Guide(())                    a task goes on until it blocks, then the next one; operations land when no task can go on
    Guide(((12, 1), ))           the same, but at step 12 the actor with index 1 goes on

So the empty schedule is one, and short ones stay short. Each step keeps which barriers and atomics it touched, for
`search.explore`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from .tasks import InFlight

Schedule = tuple[tuple[int, int], ...]
_ALWAYS = InFlight.ready        # what does not wait for another one


@dataclass
class Step:
    """One step: which of the enabled actors went on, and what it touched as (object, mode, phase). Steps share lists of actors."""

    enabled: list[int]
    choice: int
    usual: int
    touched: list[tuple[Any, str, int]] = field(default_factory=list)

    @property
    def actor(self):
        return self.enabled[self.choice]


class Guide:
    """Picks by a schedule and keeps the steps. An actor is known by a number; a task that is started anew keeps its own."""

    def __init__(self, schedule: Schedule):
        self.departures = dict(schedule)
        self.steps: list[Step] = []
        self._numbers: dict[tuple, int] = {}
        self._known: dict[Any, int] = {}
        self._started: WeakKeyDictionary[Any, int] = WeakKeyDictionary()    # by task: how many operations of it have a number
        self._runnable: list = []                   # at the last step; with the numbers
        self._inflight: list = []
        self._ready: list = []
        self._tasks: list[int] = []
        self._operations: list[int] = []
        self._enabled: list[int] = []

    def choose(self, machine):
        """The task to go on, or the operation to land; None if there is neither."""
        self._look(machine)
        count = len(self._enabled)
        if not count:
            return None
        last = self.steps[-1].choice if self.steps else -1
        # Who only looks at memory again and again lets the next one go on.
        usual = (last + 1) % count if machine.polls else 0
        choice = min(self.departures.get(len(self.steps), usual), count - 1)
        self.steps.append(Step(self._enabled, choice, usual))
        tasks = len(self._runnable)
        return self._runnable[choice] if choice < tasks else self._ready[choice - tasks]

    def _look(self, machine) -> None:
        """Who is enabled now. Most steps change little of it; who is ready changes only where something starts or lands."""
        runnable, inflight, before = [*machine.runnable], [*machine.inflight], self._enabled
        if runnable != self._runnable:
            self._runnable, self._tasks, before = runnable, self._numbered(runnable, machine), None
        if inflight != self._inflight:
            self._inflight, self._ready = inflight, [one for one in inflight if one.ready is _ALWAYS or one.ready()]
            self._operations, before = self._numbered(self._ready, machine), None
        if before is None:
            self._enabled = self._tasks + self._operations

    def touched(self, thing, mode: str, phase: int = 0) -> None:
        """The current step acts on a synchronising object."""
        if self.steps:
            self.steps[-1].touched.append((thing, mode, phase))

    def _numbered(self, actors: list, machine) -> list[int]:
        try:
            return list(map(self._known.__getitem__, actors))
        except KeyError:
            if len(self._known) > 2 * (len(machine.runnable) + len(machine.blocked) + len(machine.inflight)) + 64:
                self._known = {one: number for one, number in self._known.items()        # without who is over, and what it holds
                               if not (one.finished if one.task is one else one.landed)}
            return [self._known[actor] if actor in self._known else self._number(actor) for actor in actors]

    def _number(self, actor) -> int:
        """A new actor's number."""
        if actor.task is actor:
            key = (actor.cta.index, actor.name)
        else:
            started = self._started[actor.task] = self._started.get(actor.task, 0) + 1
            key = (actor.task.cta.index, actor.task.name, started)
        number = self._known[actor] = self._numbers.setdefault(key, len(self._numbers))
        return number
