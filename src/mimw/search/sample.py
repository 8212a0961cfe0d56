"""Which CTAs of a grid run: all, a few clusters, or named ones.

Input: what `mimw.check(ctas=...)` asks for, and the launch. Output: a function of seed and launch that gives the clusters. For
example:

    choice = chosen("sample", launch)           first, last and one more, which the seed draws
    choice(seed, launch)                        ((program ids of a cluster's CTAs), ...), or () for all of the grid

A sample runs in the grid as it is: program ids and the number of programs are those of the whole. A sample is sound only for
kernels whose CTAs have nothing to do with each other while they run (`across`). Of a kernel that asks for the work of clusters
which have not started, those of the sample are the whole queue: a running one may get them, in that order, as it may in the whole
grid. Of these the sample has more, so that a CTA has more tiles than a ring has slots.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from random import Random

from ..errors import SimulatorMisuse
from ..simulate import Launch
from ..simulator import asks
from .across import refuse_if_ctas_talk

CLUSTERS = 3        # of a sample
ASKED = 8           # of a sample of a kernel whose clusters take over others


class Everything:
    """All CTAs."""

    def __call__(self, seed, launch: Launch) -> tuple:
        return ()


class Sample:
    """The first and the last cluster, and one or some between them that the seed draws: others with each seed."""

    def __call__(self, seed, launch: Launch) -> tuple:
        count, wanted = cluster_count(launch), ASKED if asks(launch.program) else CLUSTERS
        if count <= wanted:
            return ()
        random = Random(seed if isinstance(seed, int) else 0)
        between = [1 + random.randrange(count - 2)]
        if wanted > CLUSTERS:
            between = sorted(random.sample(range(1, count - 1), wanted - 2))
        return tuple(cluster_at(launch, number) for number in (0, *between, count - 1))


class Named:
    """The clusters of the CTAs with these program ids."""

    def __init__(self, ctas: Sequence[Sequence[int]]):
        self.ctas = ctas

    def __call__(self, seed, launch: Launch) -> tuple:
        return tuple(dict.fromkeys(cluster_of(launch, index) for index in self.ctas))


def chosen(ctas, launch: Launch) -> Everything | Sample | Named:
    """What `mimw.check(ctas=...)` means; raises SimulatorMisuse for what it cannot, and for kernels whose CTAs talk."""
    if isinstance(ctas, str):
        if ctas not in ("all", "sample"):
            raise SimulatorMisuse(f"ctas is {ctas!r}; it may be 'all', 'sample', or program ids as [(0, 0, 0), (7, 0, 0)]")
        if ctas == "all":
            return Everything()
        choice = Sample()
    else:
        ids = [tuple(map(int, (index, ) if isinstance(index, int) else index)) for index in ctas]
        if not ids or any(not 1 <= len(index) <= 3 for index in ids):
            raise SimulatorMisuse(f"ctas is {ctas!r}; it may be 'all', 'sample', or program ids as [(0, 0, 0), (7, 0, 0)]")
        choice = Named(ids)
    if choice(0, launch):
        refuse_if_ctas_talk(launch)
    return choice


def extents(launch: Launch) -> tuple[int, int, int]:
    return (*map(int, launch.grid), 1, 1)[:3]


def cluster_count(launch: Launch) -> int:
    return prod(extent // ctas for extent, ctas in zip(extents(launch), launch.program.cluster))


def cluster_at(launch: Launch, number: int) -> tuple:
    """The program ids of the CTAs of a cluster by rank; clusters are counted in the order of launch, x fastest."""
    shape, corner = launch.program.cluster, []
    for extent, ctas in zip(extents(launch), shape):
        corner.append(number % (extent // ctas) * ctas)
        number //= extent // ctas
    x, y, z = corner
    return tuple((x + right, y + down, z + deep)
                 for deep in range(shape[2]) for down in range(shape[1]) for right in range(shape[0]))


def cluster_of(launch: Launch, index: Sequence[int]) -> tuple:
    """The program ids of the CTAs of the cluster in which the CTA `index` is."""
    index, number = (*index, 0, 0)[:3], 0
    if any(not 0 <= one < extent for one, extent in zip(index, extents(launch))):
        raise SimulatorMisuse(f"there is no CTA {tuple(index)} in the grid {tuple(launch.grid)}")
    for one, extent, ctas in reversed(list(zip(index, extents(launch), launch.program.cluster))):
        number = number * (extent // ctas) + one // ctas
    return cluster_at(launch, number)
