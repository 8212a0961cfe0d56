"""How many chunks a pipe had in a run: what shows that it was full, where data decide how often loops go round.

Input: a launch of a kernel in tasks. Output: a number. For example, of two groups with 3 and 2 chunks for one program:

    most_chunks(launch)         5
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from ...ir import Op
from ...runtime.simulate import Launch
from ...simulator import Hooks, run
from .comparisons import programs_of


class _Acquires:
    """Counts how often each program acquires a slot at each place of the kernel."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[Any, Op]] = Counter()

    def does(self, task: Any, op: Op) -> None:
        if op.attrs.get("method") == "acquire":
            self.counts[task.cta, op] += 1

    def waits(self, task: Any, wait: Any) -> None:
        pass

    def lands(self, operation: Any) -> None:
        pass

    def completes(self, barrier: Any, task: Any, op: Op) -> None:
        pass


def most_chunks(launch: Launch) -> int:
    """The chunks for which the program that has most of them acquires slots at one place; of the programs that a proof runs. The
    launch's arrays are written."""
    seen = _Acquires()
    clusters = tuple((index, ) for index in programs_of(launch, launch.grid))
    run(launch.program, launch.grid, launch.values, hooks=Hooks(clusters=clusters, observer=seen))
    return max(seen.counts.values(), default=0)
