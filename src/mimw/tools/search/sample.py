"""Which CTAs of a grid run: all, a few clusters, or named ones.

Input: what `mimw.check(ctas=...)` asks for, and the launch. Output: a function of seed and launch that gives the clusters. For
example:

    choice = chosen("sample", launch)           first, last and one more, which the seed draws
    choice(seed, launch)                        ((program ids of a cluster's CTAs), ...), or () for all of the grid

A sample runs in the grid as it is: program ids and the number of programs are those of the whole. A sample is sound only for
kernels whose CTAs have nothing to do with each other while they run (`across`). On several GPUs programs of one id run together,
and so do those that wait for each other's signals (`together`). Of a kernel that asks for the work of clusters which have not
started, those of the sample are the whole queue: a running one may get them, in that order, as it may in the whole grid. Of these
the sample has more, so that a CTA has more tiles than a ring has slots.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from ...errors import SimulatorMisuse
from ...runtime.simulate import Launch
from ...simulator import asks
from .across import refuse_if_ctas_talk
from .clusters import cluster_at, cluster_count, cluster_of
from .together import together

CLUSTERS = 3        # of a sample
ASKED = 8           # of a sample of a kernel whose clusters take over others


class Everything:
    """All CTAs."""

    def __call__(self, seed, launch: Launch) -> tuple:
        return ()


class _Some:
    """Clusters that are chosen, with those that these have to do with on several GPUs."""

    def __init__(self):
        self._together: dict[tuple, list[tuple[int, ...]]] = {}

    def closed(self, launch: Launch, numbers) -> tuple:
        """The clusters of these numbers and of those that wait for each other's signals; () if these are all."""
        if launch.gpus > 1:
            key = id(launch.program), tuple(launch.grid)
            if key not in self._together:
                self._together[key] = together(launch)
            numbers = sorted({other for number in numbers for other in self._together[key][number]})
            if len(numbers) == cluster_count(launch):
                return ()
        return tuple(cluster_at(launch, number) for number in numbers)


class Sample(_Some):
    """The first and the last cluster, and one or some between them that the seed draws: others with each seed."""

    def __call__(self, seed, launch: Launch) -> tuple:
        count, wanted = cluster_count(launch), ASKED if asks(launch.program) else CLUSTERS
        if count <= wanted:
            return ()
        random = Random(seed if isinstance(seed, int) else 0)
        between = [1 + random.randrange(count - 2)]
        if wanted > CLUSTERS:
            between = sorted(random.sample(range(1, count - 1), wanted - 2))
        return self.closed(launch, (0, *between, count - 1))


class Named(_Some):
    """The clusters of the CTAs with these program ids."""

    def __init__(self, ctas: Sequence[Sequence[int]]):
        super().__init__()
        self.ctas = ctas

    def __call__(self, seed, launch: Launch) -> tuple:
        named = list(dict.fromkeys(cluster_of(launch, index) for index in self.ctas))
        if launch.gpus == 1:
            return tuple(named)
        numbers = [number for number in range(cluster_count(launch)) if cluster_at(launch, number) in named]
        return self.closed(launch, numbers)


def chosen(ctas, launch: Launch) -> Everything | Sample | Named:
    """The choice of CTAs that `mimw.check(ctas=...)` asks for; raises SimulatorMisuse for what it cannot mean, and for kernels
    whose CTAs talk."""
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
