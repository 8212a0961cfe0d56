"""Operations in flight, by what the scheduler asks about them: whose time has come, and which can land.

Input: operations that start and land. Output: the operation to land next. For example:

    flights.start(operation, due=120)      in flight from now on, at the latest until step 120
    flights.overdue(120)                   an operation whose time has come and that can land, if there is one
    flights.able                           how many can land; flights.nth(k) is the k-th of them in the order of their start
    flights.land(operation)                the operation is over

Each question costs the same however many operations are in flight, and nothing is kept of those that have landed.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush

from .tasks import InFlight

SLACK = 16      # landed operations that may stay in the queue beside those that fly


class Flights:
    """A collection of `InFlight`s in the order of their start. One that `follows` another cannot land before that has."""

    def __init__(self, note: Callable[[InFlight, bool], None] | None = None):
        """`note` is told of each operation that can land, and of each that has."""
        self._note = note
        self._flying: dict[int, InFlight] = {}              # by the number of their start
        self._able: list[int] = []                          # the numbers of those that can land, in order
        self.due: list[tuple[int, int, InFlight]] = []      # a heap; what has landed is taken out now and then
        self._started = 0

    def __len__(self) -> int:
        return len(self._flying)

    def __iter__(self) -> Iterator[InFlight]:
        return iter(self._flying.values())

    def start(self, operation: InFlight, due: int | None = None) -> None:
        self._started += 1
        operation.number = self._started
        self._flying[operation.number] = operation
        if operation.ready():
            self._able.append(operation.number)
            if self._note is not None:
                self._note(operation, True)
        else:
            operation.follows.followed_by = operation
        if due is not None:
            heappush(self.due, (due, operation.number, operation))

    def land(self, operation: InFlight) -> None:
        del self._flying[operation.number], self._able[bisect_left(self._able, operation.number)]
        operation.landed, operation.follows = True, None    # no chain of all that ever landed
        follower, operation.followed_by = operation.followed_by, None
        if follower is not None:
            insort(self._able, follower.number)
        if self._note is not None:
            self._note(operation, False)
            if follower is not None:
                self._note(follower, True)
        if len(self.due) > SLACK + 2 * len(self._flying):
            self.due = [one for one in self.due if not one[2].landed]
            heapify(self.due)

    def overdue(self, step: int) -> InFlight | None:
        """An operation whose time has come. One that cannot land yet does so as soon as what it follows has. There is none while
        the first in `due` is under way and its time is still to come."""
        due = self.due
        while due and (due[0][2].landed or due[0][0] <= step):
            _, number, operation = heappop(due)
            if operation.landed:
                continue
            if operation.ready():
                return operation
            heappush(due, (step + 1, number, operation))
        return None

    @property
    def able(self) -> int:
        return len(self._able)

    def all_able(self) -> Iterator[InFlight]:
        """Those that can land, in the order of their start."""
        return map(self._flying.__getitem__, self._able)

    def nth(self, index: int) -> InFlight:
        return self._flying[self._able[index]]
