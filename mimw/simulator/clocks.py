"""Vector clocks: for each strand the last tick of it that is known to be over."""

from __future__ import annotations

from dataclasses import dataclass

Clock = dict[int, int]


@dataclass(eq=False)
class Epoch:
    """When something was done: a strand and a tick of it."""

    strand: int
    tick: int

    def before(self, clock: Clock) -> bool:
        """Whether who has that clock is known to come later."""
        return clock.get(self.strand, 0) >= self.tick


@dataclass(frozen=True)
class Message:
    """What a synchronising object carries: what has been done, and what of it the asynchronous proxy sees."""

    clock: Clock
    fenced: Clock


def join(clock: Clock, other: Clock) -> None:
    """Make `clock` know all that `other` knows."""
    for strand, tick in other.items():
        if clock.get(strand, 0) < tick:
            clock[strand] = tick
