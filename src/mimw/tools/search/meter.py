"""How far a check is: a line of text, no sooner than after two seconds and no oftener than once a second.

Input: runs that end, and how many there are. Output: lines for a function such as `print`. For example:

    meter = Meter(print)                        mimw.check(..., progress=meter)
    # 3 of 8 runs, 12,100 operations/s, about 14 s left
"""

from __future__ import annotations

import time
from collections.abc import Callable

QUIET, BETWEEN = 2.0, 1.0       # seconds


class Meter:
    """A `progress` for `mimw.check` that also knows operations: `operations` is set before each call, and `inside` is called from
    within runs."""

    def __init__(self, tell: Callable[[str], None], clock: Callable[[], float] = time.monotonic):
        self.tell, self.clock = tell, clock
        self.begun = clock()
        self.next = self.begun + QUIET
        self.operations = self.run = self.runs = self.findings = 0

    def __call__(self, run: int, runs: int, findings: int) -> None:
        self.run, self.runs, self.findings = run, runs, findings
        self._tell(0, 0.0)

    def inside(self, machine, ctas: int, runs: int) -> None:
        """`machine` is at work on the next run of `runs`, which has so many CTAs."""
        if self.clock() >= self.next:
            self.runs = runs
            self._tell(machine.step, max(0, machine.begun - len(machine.ctas)) / ctas)

    def _tell(self, more: int, part: float) -> None:
        now = self.clock()
        if now < self.next:
            return
        self.next = now + BETWEEN
        seconds, done = now - self.begun, self.run + part
        words = [f"{self.run} of {self.runs} runs", *([f"{self.findings} found"] if self.findings else []),
                 f"{(self.operations + more) / seconds:,.0f} operations/s"]
        if done and self.run < self.runs:
            words.append(f"about {seconds * (self.runs - done) / done:,.0f} s left")
        self.tell(", ".join(words))
