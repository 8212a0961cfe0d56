"""The clusters of a launch's grid by their numbers, in the order of launch.

Input: a launch, and a number or a program id. Output: program ids. For example, in a grid of (4, 3) and clusters of (2, 1):

    cluster_count(launch)               6
    cluster_at(launch, 1)               ((2, 0, 0), (3, 0, 0))
    cluster_of(launch, (3, 0))          the same
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...errors import SimulatorMisuse
from ...runtime.simulate import Launch


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
