"""Clusters: CTAs that run at the same time and know their ranks, and the order in which the clusters of a grid start.

Input: the shapes of a grid and of its clusters. Output: the program ids of each cluster's CTAs, and a `Cluster` for those that run.

    list(clusters((4, 1, 1), (2, 1, 1)))      [[(0, 0, 0), (1, 0, 0)], [(2, 0, 0), (3, 0, 0)]]
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from .rendezvous import ClusterBarrier, CtaBarrier, Rendezvous
from .tasks import Cta

Index = tuple[int, int, int]


class Cluster:
    """CTAs in the order of their ranks, each of `warps` warps; their barrier, the barriers of some of them `by_ranks`, and those of
    one task of each `by_task`."""

    def __init__(self, warps: int):
        self.ctas: list[Cta] = []
        self.barrier = ClusterBarrier(self.ctas, warps)
        self.by_ranks: dict[tuple[int, ...], CtaBarrier] = {}
        self.by_task: dict[int, CtaBarrier] = {}

    def barrier_of(self, ranks: tuple[int, ...]) -> CtaBarrier:
        """The barrier of the CTAs with these ranks."""
        found = self.by_ranks.get(ranks)
        if found is None:
            found = self.by_ranks[ranks] = CtaBarrier(f"ranks {', '.join(map(str, ranks))}", [self.ctas[rank] for rank in ranks])
        return found

    def barrier_in(self, number: int, name: str) -> CtaBarrier:
        """The barrier of the tasks that run the same code in all CTAs, by the number of that code."""
        found = self.by_task.get(number)
        if found is None:
            found = self.by_task[number] = CtaBarrier(f"task {name!r} of all CTAs", self.ctas)
        return found

    def barriers(self) -> list[Rendezvous]:
        """All that there are."""
        return [self.barrier, *self.by_ranks.values(), *self.by_task.values()]


def clusters(grid: Index, shape: Index) -> Iterator[list[Index]]:
    """The program ids of each cluster by rank; clusters and the CTAs in them in launch order, x fastest."""
    steps = [tuple(reversed(inside)) for inside in product(*map(range, reversed(shape)))]
    for z in range(0, grid[2], shape[2]):           # no product of the grid's ranges: it would list them first
        for y in range(0, grid[1], shape[1]):
            for x in range(0, grid[0], shape[0]):
                yield [(x + right, y + down, z + deep) for right, down, deep in steps]
