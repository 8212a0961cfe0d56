"""A unit that serves one request after the other: in the order in which they come, or where it has time.

Input: when a request is there, and how long it takes. Output: when it is done. For example:

    queue.take(earliest=100.0, duration=32.0)       132.0, or later where the unit is still busy
    gaps.take(100.0, 32.0)                          132.0 also where the unit has promised its time from 200.0 on
"""

from __future__ import annotations

from bisect import bisect_right, insort


class Queue:
    """`free` is when the unit has done what it was asked for so far, `busy` how long it has worked."""

    def __init__(self):
        self.free = self.busy = 0.0

    def take(self, earliest: float, duration: float) -> float:
        """The end of a request that is there at `earliest`."""
        start = max(self.free, earliest)
        self.free = start + duration
        self.busy += duration
        return self.free


class Gaps(Queue):
    """A queue whose requests come in the order of the program, not of time: one that is there earlier is served in the first gap
    that is long enough. The last `KEPT` stretches of work are remembered."""

    KEPT = 256

    def __init__(self):
        super().__init__()
        self._work: list[tuple[float, float]] = []

    def take(self, earliest: float, duration: float) -> float:
        start = earliest
        for begin, end in self._work[max(0, bisect_right(self._work, (earliest, float("inf"))) - 1):]:
            if begin >= start + duration:
                break
            start = max(start, end)
        insort(self._work, (start, start + duration))
        del self._work[:-self.KEPT]
        self.free = max(self.free, start + duration)
        self.busy += duration
        return start + duration
