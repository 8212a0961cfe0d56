"""What has been done to one synchronising object so far, joined by kind: a step is held against a few summaries, not all past
steps.

Input: the steps that touch an object, each with a mode, a barrier's phase and the steps before it. Output: which of them a
further step comes after, and which of them it could have come before. For example:

    thing = Thing()
    thing.add(ARRIVE, 0, Past(clock=0b1011, last=3, actor="load"))      step 3 arrives in phase 0, behind steps 0 and 1
    [past.clock for past in thing.dependent(WAIT, 1)]                   what a wait in phase 1 comes after: [0b1011]

Two actions on an object are dependent if their order makes a difference: all pairs but waits with waits, reads with reads, and
arrivals in one phase with each other. An earlier action is reversible if the later one could have come first. All dependent
actions are reversible, but for one pair: a wait that passes in phase n cannot come before the arrivals of phase n - 1, which let
it pass; it may come on either side of the arrivals of phase n, unless the last of these ends the phase.
"""

from __future__ import annotations

from dataclasses import dataclass

ARRIVE, WAIT, READ, WRITE = "arrive", "wait", "read", "write"
_OTHERS = {ARRIVE: (WAIT, READ, WRITE), WAIT: (READ, WRITE), READ: (WAIT, WRITE), WRITE: (WAIT, READ, WRITE)}
_OPEN = 2           # so many phases before the one that is asked for stay apart, since waits and arrivals ask in turns


@dataclass
class Past:
    """Some steps: what comes before whoever follows them all, as bits; the last one, whose it is, and the last one of others."""

    clock: int = 0
    last: int = -1
    actor: object = None
    other: int = -1

    def join(self, more: Past) -> None:
        """The steps of both."""
        self.clock |= more.clock
        if self.actor == more.actor:
            self.last, self.other = max(self.last, more.last), max(self.other, more.other)
        elif more.last > self.last:
            self.last, self.actor, self.other = more.last, more.actor, max(more.other, self.last)
        else:
            self.other = max(self.other, more.last)

    def last_of_others(self, actor) -> int:
        """The last step that is not one of `actor`; -1 if there is none."""
        return self.other if actor == self.actor else self.last


class Thing:
    """One object."""

    def __init__(self):
        self._modes: dict[str, Past] = {}               # all of one mode, arrivals too
        self._phases: dict[int, Past] = {}              # the arrivals of each phase
        self._early, self._below, self._highest = Past(), 0, 0      # those of all phases below a number

    def add(self, mode: str, phase: int, past: Past) -> None:
        """One more step on it."""
        self._modes.setdefault(mode, Past()).join(past)
        if mode == ARRIVE:
            self._phases.setdefault(phase, Past()).join(past)
            self._highest = max(self._highest, phase)
            if phase < self._below:
                self._early.join(past)

    def dependent(self, mode: str, phase: int) -> list[Past]:
        """The actions so far that come before an action that comes now."""
        if mode == ARRIVE:
            return self._others(mode) + self._but(phase)
        return self._others(mode) + self._all(ARRIVE)

    def reversible(self, mode: str, phase: int) -> list[Past]:
        """The actions so far before which an action that comes now could have come."""
        if mode == WAIT:
            return self._others(mode) + self._before(phase - 1)
        return self.dependent(mode, phase)

    def _others(self, mode: str) -> list[Past]:
        return [past for other in _OTHERS[mode] for past in self._all(other)]

    def _all(self, mode: str) -> list[Past]:
        return [self._modes[mode]] if mode in self._modes else []

    def _but(self, phase: int) -> list[Past]:
        """The arrivals in all other phases."""
        later = range(phase + 1, self._highest + 1)
        return self._before(phase) + [self._phases[one] for one in later if one in self._phases]

    def _before(self, phase: int) -> list[Past]:
        """The arrivals in the phases before `phase`."""
        if phase < self._below:         # a barrier that was made anew: its phases begin again
            return [past for one, past in self._phases.items() if one < phase]
        for one in range(self._below, phase - _OPEN):
            if one in self._phases:
                self._early.join(self._phases[one])
        self._below = max(self._below, phase - _OPEN)
        return [self._early, *(self._phases[one] for one in range(self._below, phase) if one in self._phases)]
