"""Vector clocks: for each strand the last tick that is known to be over, and how far its accesses are fenced for other proxies.

Input: clocks, which are dictionaries from keys of strands to ticks. Output: the same clocks, which know more. For example:

    clock = {8: 5, 9: 3}      strand 8 is known up to tick 5; its shared memory accesses up to tick 3 are fenced for reading
    join(clock, {8: 6})       {8: 6, 9: 3}
    fence(clock, FENCED)      {8: 6, 9: 6}

Each strand has ASPECTS keys of its own, the strand's number and the numbers behind it. All aspects travel together: a task that
joins a clock learns at once what is ordered and what has been fenced, so a fence may stand on either side of a barrier.
"""

from __future__ import annotations

from dataclasses import dataclass

Clock = dict[int, int]

# ORDERED: over, for accesses in one proxy. FENCED: generic writes to shared memory that the asynchronous proxy may read.
# REUSABLE: generic accesses to shared memory that it may overwrite. GLOBAL: generic writes to global memory that it may read.
ORDERED, FENCED, REUSABLE, GLOBAL = range(4)
ASPECTS = 4

# Proxies of accesses. VACANT: what makes memory nobody's comes after all that was there, and touches nothing itself.
GENERIC, ASYNC, VACANT = "generic", "async", "none"


@dataclass(eq=False, slots=True)
class Epoch:
    """The time at which something was done: a strand and a tick of it."""

    strand: int
    tick: int

    def before(self, clock: Clock, aspect: int = ORDERED) -> bool:
        """True if who has that clock is known to come later, or, of another aspect, behind a fence."""
        return clock.get(self.strand + aspect, 0) >= self.tick


def join(clock: Clock, other: Clock) -> None:
    """Make `clock` know all that `other` knows."""
    for key, tick in other.items():
        if clock.get(key, 0) < tick:
            clock[key] = tick


def fence(clock: Clock, *aspects: int) -> None:
    """All that is ordered in `clock` is so for these aspects, too."""
    for key, tick in list(clock.items()):
        if key % ASPECTS == ORDERED:
            for aspect in aspects:
                clock[key + aspect] = tick
