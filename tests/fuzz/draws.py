"""Where the choices of a generator come from: a seed, or a recorded list of numbers.

Input: a seed, or numbers that an earlier `Draws` recorded. Output: choices, and the record of them. In each choice 0 is the
simplest, and a generator that is given a shorter or smaller record still makes a valid program, so that to shrink a program is
to shrink its record (`shrink`):

    draws = Draws(7)
    draws.pick(["tma", "cp.async"]), draws.integer(1, 4), draws.record
    Draws(record=[0, 0]).pick(["tma", "cp.async"])        # "tma"
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import contextmanager
from typing import Any


class Draws:
    """Choices by a seed, or by `record`, whose numbers are clipped to what a choice allows; past its end all are 0."""

    def __init__(self, seed: int = 0, record: Sequence[int] | None = None):
        self._random, self._given = random.Random(seed), record
        self.record: list[int] = []
        self.spans: list[tuple[int, int]] = []

    def _next(self, limit: int, fresh) -> int:
        if self._given is None:
            number = fresh()
        else:
            number = self._given[len(self.record)] if len(self.record) < len(self._given) else 0
            number = max(0, min(number, limit))
        self.record.append(number)
        return number

    def integer(self, low: int, high: int) -> int:
        """A number from `low`, the simplest, to `high`."""
        return low + self._next(high - low, lambda: self._random.randint(0, high - low))

    def pick(self, options: Sequence[Any], weights: Sequence[float] | None = None) -> Any:
        """One of the options, the first of which is the simplest."""

        def fresh():
            return (
                self._random.choices(range(len(options)), weights)[0]
                if weights
                else self._random.randrange(len(options))
            )

        return options[self._next(len(options) - 1, fresh)]

    def chance(self, percent: float) -> bool:
        """True in so many of a hundred cases; False is the simplest."""
        return bool(self._next(1, lambda: int(self._random.random() * 100 < percent)))

    @contextmanager
    def span(self):
        """The choices made inside belong together: `shrink` tries to take them out as one."""
        start = len(self.record)
        yield
        self.spans.append((start, len(self.record)))
