"""Which blocked task has waited longest for something that is in flight.

    hopes.add(task)       a task that is blocked, and something that it waits for has started; told whenever that happens
    hopes.first()         an operation that the longest blocked of these waits for, and that can land now; None if there is none

The order is that of blocking. Tasks that went on, or whose operations have landed, are left out when their turn comes.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from .tasks import InFlight, Task

SLACK = 16


class Hopes:
    """Tasks by the step at which they were blocked; at most one is blocked at a step."""

    def __init__(self, blocked: dict[Task, None]):
        self._blocked = blocked
        self._waiting: list[tuple[int, Task]] = []

    def add(self, task: Task) -> None:
        if task.hopes_at == task.blocked_at or task not in self._blocked:
            return
        task.hopes_at = task.blocked_at
        heappush(self._waiting, (task.blocked_at, task))
        if len(self._waiting) > SLACK + 2 * len(self._blocked):
            self._waiting = [one for one in self._waiting if self._still(*one)]
            heapify(self._waiting)

    def first(self) -> InFlight | None:
        while self._waiting:
            since, task = self._waiting[0]
            if self._still(since, task):
                for operation in task.wait.needs():
                    if not operation.landed and operation.ready():
                        return operation
            heappop(self._waiting)
            if task.hopes_at == since:
                task.hopes_at = -1
        return None

    def _still(self, since: int, task: Task) -> bool:
        return task in self._blocked and task.blocked_at == since


class Hopeless:
    """Where nobody asks."""

    def add(self, task: Task) -> None:
        """Nothing to note."""
