"""The clusters of a grid that have not started: the queue that admission reads, and that cluster launch control takes from.

Input: the program ids of each cluster in launch order. Output: the next cluster, for whoever asks first. For example:

    waiting = Waiting(clusters((8, 1, 1), (2, 1, 1)))
    waiting.next()          [(0, 0, 0), (1, 0, 0)], by which a cluster starts: or a running one has its work, and it never does

Hardware starts clusters as room gets free, while running ones ask for the launch of others to be cancelled. So how many CTAs are
resident at once decides who does the work of which tile, and a kernel must be right for any number: where it asks, the seed draws
one. A request may also be refused though clusters are left (CUDA C++ Programming Guide, "Cluster Launch Control": somebody with
a higher priority wants the SM); these then start as usual.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from ...ir import Program

CROWDS = (1, 2, 3)          # clusters resident at once, besides all
REFUSED = 16                # one request of so many is refused though clusters are left


class Waiting:
    """The clusters that have not started, in launch order."""

    def __init__(self, order: Iterator):
        self._order = order

    def next(self) -> list:
        """The program ids of the next cluster, [] if there is none left."""
        return next(self._order, [])


def asks(program: Program) -> bool:
    """True if running clusters may take over the work of others."""
    return any("steals" in op.row.traits for op in program.walk())


def crowd(program: Program, clusters: int, seed: int | None) -> int:
    """The number of clusters of a kernel that `asks` which are resident at once; None stands for a schedule, with two."""
    return 2 if seed is None else Random(f"residents {seed}").choice((*CROWDS, max(1, clusters)))
