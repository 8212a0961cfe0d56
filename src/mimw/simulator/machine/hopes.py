"""Which blocked task has waited longest for something that is in flight.

Input: tasks that block, and tasks for which something that they wait for has started. Output: the operation to land next. For
example:

    hopes.add(task)       the task is blocked, and an operation that it waits for is in flight
    hopes.first()         an operation that can land now, and for which the longest blocked of these waits; None if there is none

Tasks are in the order in which they were blocked. A task that went on, or whose operations have landed, is dropped when its turn
comes.
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
                    while not operation.landed and not operation.ready():
                        operation = operation.follows       # what has to land before
                    if not operation.landed:
                        return operation
            heappop(self._waiting)
            if task.hopes_at == since:
                task.hopes_at = -1
        return None

    def _still(self, since: int, task: Task) -> bool:
        return task in self._blocked and task.blocked_at == since


class Hopeless:
    """A stand-in for `Hopes` in machines where nobody asks for the first."""

    def add(self, task: Task) -> None:
        """Nothing to note."""
