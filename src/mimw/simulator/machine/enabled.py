"""Who could have gone on at each step of a guided run, kept as what changed from step to step.

Input: actors that can go on, and those that cannot any more. Output: their numbers at any step. For example:

    enabled = Enabled()
    enabled.note(task, True)            may go on from here on: a task that is woken, an operation that can land
    enabled.look(machine)               a step begins: the numbers of those who were not among them at the step before
    enabled.at(12)                      [0, 3, 5, 11]: the tasks in their order, then the operations in the order of their start

A step costs what it changes, however many CTAs there are: all are written down only when as much has changed as there are.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any
from weakref import WeakKeyDictionary

_FEW = 64       # changes that are always gone through


class Enabled:
    """An actor is known by a number; a task that is started anew keeps its own."""

    def __init__(self):
        self._news: list[tuple[Any, bool]] = []         # since the last look
        self._numbers: dict[tuple, int] = {}
        self._known: dict[Any, int] = {}
        self._started: WeakKeyDictionary[Any, int] = WeakKeyDictionary()    # by task: how many operations of it have a number
        self._present: Counter[int] = Counter()         # by number, at the last look
        self._changes: list[tuple | None] = []          # of each step: tasks that went, that came; operations that went, that came
        self._wholes: list[tuple[int, list[int], list[tuple[int, int]]]] = []       # (step, tasks, operations with their starts)
        self._since = 0                                 # changes since the last of these

    def note(self, actor, able: bool) -> None:
        self._news.append((actor, able))

    def look(self, machine) -> tuple[int, ...]:
        """A step begins. Who came and went again since the last one was never there."""
        came, changes = (), None
        if self._news:
            came, changes = self._changed(machine)
        self._changes.append(changes)
        if not self._wholes or self._since > _FEW + len(machine.runnable) + machine.inflight.able:
            operations = [(one.number, self._known[one]) for one in machine.inflight.all_able()]
            self._wholes.append((len(self._changes) - 1, [self._known[task] for task in machine.runnable], operations))
            self._since = 0
        return came

    def number(self, actor) -> int:
        return self._known[actor]

    def at(self, step: int) -> list[int]:
        """The numbers of those who could go on at a step."""
        first, tasks, operations = self._wholes[bisect_right(self._wholes, step, key=lambda whole: whole[0]) - 1]
        tasks, operations = [*tasks], [*operations]
        for changes in filter(None, self._changes[first + 1:step + 1]):
            tasks_gone, tasks_came, gone, operations_came = changes
            for number in tasks_gone:
                tasks.remove(number)
            tasks += tasks_came
            for one in gone:
                operations.remove(one)
            for one in operations_came:
                insort(operations, one)
        return tasks + [number for _, number in operations]

    def _changed(self, machine) -> tuple[tuple[int, ...], tuple]:
        """(who is there that was not, what has changed)."""
        last: dict[Any, bool] = {}
        left: dict[Any, int] = {}       # who was there and is not any more, or was not for a moment
        for actor, able in self._news:
            if not able and actor not in last:
                left[actor] = self._known[actor]
            last.pop(actor, None)
            last[actor] = able
        self._news.clear()
        came = [actor for actor, able in last.items() if able]
        tasks = [actor for actor in came if actor.task is actor]
        operations = sorted((actor for actor in came if actor.task is not actor), key=lambda one: one.number)
        numbers = [self._known[actor] if actor in self._known else self._number(actor) for actor in (*tasks, *operations)]
        changes = ([number for actor, number in left.items() if actor.task is actor], numbers[:len(tasks)],
                   [(actor.number, number) for actor, number in left.items() if actor.task is not actor],
                   [(one.number, number) for one, number in zip(operations, numbers[len(tasks):])])
        new = tuple({number for number in numbers if not self._present[number]})
        self._present.subtract(left.values())
        self._present.update(numbers)
        self._since += len(left) + len(numbers)
        if len(self._known) > _FEW + 2 * (len(machine.runnable) + len(machine.blocked) + len(machine.inflight)):
            self._known = {one: number for one, number in self._known.items()        # without who is over, and what it holds
                           if not (one.finished if one.task is one else one.landed)}
            self._present = +self._present
        return new, changes

    def _number(self, actor) -> int:
        """A new actor's number."""
        if actor.task is actor:
            key = (actor.cta.key, actor.name)
        else:
            started = self._started[actor.task] = self._started.get(actor.task, 0) + 1
            key = (actor.task.cta.key, actor.task.name, started)
        number = self._known[actor] = self._numbers.setdefault(key, len(self._numbers))
        return number


class At(Sequence):
    """The numbers of those who could go on at one step, found when somebody asks."""

    __slots__ = ("_enabled", "_step")

    def __init__(self, enabled: Enabled, step: int):
        self._enabled, self._step = enabled, step

    def __len__(self) -> int:
        return len(self._enabled.at(self._step))

    def __getitem__(self, index):
        return self._enabled.at(self._step)[index]

    def __iter__(self) -> Iterator[int]:
        return iter(self._enabled.at(self._step))
