"""A unit that serves one request after the other, in the order in which they come.

Input: when a request is there, and how long it takes. Output: when it is done. For example:

    queue.take(earliest=100.0, duration=32.0)       132.0, or later where the unit is still busy
"""


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
