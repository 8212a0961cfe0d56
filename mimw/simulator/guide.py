"""A schedule that is written down, in place of a random one: who goes on at each step.

The default is the plainest: a task goes on until it blocks, then the next one; what is in flight lands when nobody can go on.
A schedule is where a run departs from that, as pairs (step, choice), so the empty schedule is one and short ones stay short.
What each step touched of barriers and atomics is kept, for the search in `explore`.
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

    enabled: list[Any]
    choice: int
    usual: int
    touched: list[tuple[Any, str, int]] = field(default_factory=list)

    @property
    def actor(self):
        return self.enabled[self.choice]


class Guide:
    """Picks by a schedule and keeps the steps. An actor is known by a key that is the same in every run."""

    def __init__(self, schedule: Schedule):
        self.departures = dict(schedule)
        self.steps: list[Step] = []
        self._keys: dict[Any, tuple] = {}
        self._started: WeakKeyDictionary[Any, int] = WeakKeyDictionary()    # by task: how many operations of it have a key
        self._able: list = []
        self._enabled: list[tuple] = []

    def pick(self, machine):
        """The task to go on, or the operation to land; None if there is neither."""
        able = [*machine.runnable, *[one for one in machine.inflight if one.ready is _ALWAYS or one.ready()]]
        if not able:
            return None
        if able != self._able:          # else the keys are those of the step before
            if len(self._keys) > 2 * (len(able) + len(machine.blocked)) + 64:       # forget who is over, and the memory with it
                self._keys = {actor: key for actor, key in self._keys.items()
                              if not (actor.finished if actor.task is actor else actor.landed)}
            keys = self._keys
            self._able, self._enabled = able, [keys.get(actor) or self._key(actor) for actor in able]
        last = self.steps[-1].choice if self.steps else -1
        # Who only looks at memory again and again lets the next one go on.
        usual = (last + 1) % len(able) if machine.polls else 0
        choice = min(self.departures.get(len(self.steps), usual), len(able) - 1)
        self.steps.append(Step(self._enabled, choice, usual))
        return able[choice]

    def touched(self, thing, mode: str, phase: int = 0) -> None:
        """The current step acts on a synchronising object."""
        if self.steps:
            self.steps[-1].touched.append((thing, mode, phase))

    def _key(self, actor) -> tuple:
        """A new actor's key."""
        if actor.task is actor:
            key = (actor.cta.index, actor.name)
        else:
            number = self._started[actor.task] = self._started.get(actor.task, 0) + 1
            key = (actor.task.cta.index, actor.task.name, number)
        self._keys[actor] = key
        return key
