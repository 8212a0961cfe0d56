"""Clusters: CTAs that run at the same time, know their ranks, and meet at the hardware's cluster barrier."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from .tasks import Cta, Task

Index = tuple[int, int, int]


@dataclass(eq=False)
class Cluster:
    """CTAs in the order of their ranks, and their barrier: it opens when every warp of every CTA that has not left is there.

    `warps` are those of one CTA, the ones included that only fill up a group and run nothing.
    """

    warps: int
    ctas: list[Cta] = field(default_factory=list)
    phase: int = 0
    came: dict[Cta, int] = field(default_factory=dict)     # warps that are there
    latest: float = 0.0
    opened_at: float = 0.0
    waiters: list[Task] = field(default_factory=list)
    meetings: dict[tuple[int, ...], Any] = field(default_factory=dict)      # of some of the CTAs, by their ranks

    def arrive(self, task: Task) -> None:
        """All warps of `task` are there."""
        self.came[task.cta] = self.came.get(task.cta, 0) + task.num_warps
        self.latest = max(self.latest, task.clock)
        self.settle()

    def settle(self) -> None:
        """Open the barrier if nobody is missing."""
        if not self.came or any(cta.live and self.came.get(cta, 0) < self.warps for cta in self.ctas):
            return
        self.phase, self.opened_at, self.latest = self.phase + 1, self.latest, 0.0
        self.came.clear()
        for waiter in self.waiters:
            waiter.machine.wake(waiter)
        self.waiters.clear()

    def state(self) -> str:
        """Who is there, for messages."""
        missing = ", ".join(f"{self.warps - self.came.get(cta, 0)} of {self.warps} warps of CTA {cta.index}" for cta in self.ctas
                            if cta.live and self.came.get(cta, 0) < self.warps)
        return f"the cluster barrier, to which {missing} have not come"


def clusters(grid: Index, shape: Index) -> Iterator[list[Index]]:
    """The program ids of each cluster by rank; clusters and the CTAs in them in launch order, x fastest."""
    steps = [tuple(reversed(inside)) for inside in product(*map(range, reversed(shape)))]
    for z in range(0, grid[2], shape[2]):           # no product of the grid's ranges: it would list them first
        for y in range(0, grid[1], shape[1]):
            for x in range(0, grid[0], shape[0]):
                yield [(x + right, y + down, z + deep) for right, down, deep in steps]


