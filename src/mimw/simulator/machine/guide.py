"""A schedule that is written down, in place of a random one: which actor goes on at each step.

Input: a schedule, pairs (step, choice) at which a run departs from the plainest one. Output: the actor of each step, and a record
of each step. For example:

    Guide(())                    a task goes on until it blocks, then the next one; operations land when no task can go on
    Guide(((12, 1), ))           the same, but at step 12 the actor with index 1 goes on

So the empty schedule is one, and short ones stay short. Each step keeps which barriers and atomics it touched, for
`search.explore`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...errors import SimulatorMisuse
from .enabled import At, Enabled

Schedule = tuple[tuple[int, int], ...]


def check_seed(seed: Any) -> None:
    """SimulatorMisuse for what is neither a whole number nor a schedule."""
    pairs = isinstance(seed, tuple) and all(isinstance(one, (tuple, list)) and len(one) == 2 for one in seed)
    numbers = [number for one in seed for number in one] if pairs else [seed]
    if not all(hasattr(number, "__index__") for number in numbers):
        raise SimulatorMisuse(f"seed is {seed!r}; it may be a whole number, or a schedule: pairs (step, choice) as a finding of "
                              "mimw.check names them", hint="seed=0, seed=17, seed=((12, 1), )")


@dataclass
class Step:
    """One step: which of the enabled actors went on, and what it touched as (object, mode, phase). `came` are those that were not
    enabled at the step before, `actor` the one that went on; where they are not given they are found out."""

    enabled: Sequence
    choice: int
    usual: int
    touched: list[tuple[Any, str, int]] = field(default_factory=list)
    came: Collection | None = None
    actor: Any = None

    def __post_init__(self):
        if self.actor is None:
            self.actor = self.enabled[self.choice]


class Guide:
    """Picks by a schedule and keeps the steps."""

    def __init__(self, schedule: Schedule):
        self.departures = dict(schedule)
        self.steps: list[Step] = []
        self.enabled = Enabled()        # who can go on; the machine tells it

    def choose(self, machine):
        """The task to go on, or the operation to land; None if there is neither."""
        runnable, inflight = machine.runnable, machine.inflight
        count = len(runnable) + inflight.able
        if not count:
            return None
        came = self.enabled.look(machine)
        last = self.steps[-1].choice if self.steps else -1
        # Who only looks at memory again and again lets the next one go on.
        usual = (last + 1) % count if machine.polls else 0
        choice = min(self.departures.get(len(self.steps), usual), count - 1)
        actor = runnable[choice] if choice < len(runnable) else inflight.nth(choice - len(runnable))
        self.steps.append(Step(At(self.enabled, len(self.steps)), choice, usual, came=came, actor=self.enabled.number(actor)))
        return actor

    def touched(self, thing, mode: str, phase: int = 0) -> None:
        """The current step acts on a synchronising object."""
        if self.steps:
            self.steps[-1].touched.append((thing, mode, phase))
