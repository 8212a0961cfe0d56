"""Requests of a kernel to its launch, as one frozen value: noted while the kernel is recorded, kept by its `Program`.

    facts = LaunchFacts(cluster=(1, 1, 1))      what the launch keywords ask for
    facts = facts.with_mesh(4)                  a `tle.device_mesh` of 4 CTAs is used: clusters of (4, 1, 1), counted by the grid
    facts = facts.with_suspend(100)             a task region gives a hint of 100 ns for the kernel's barrier waits

Input: the launch keywords and the words of the kernel. Output: a value that simulator, lowering and launch read alike.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

ALONE = (1, 1, 1)  # the cluster of a CTA that shares nothing


@dataclass(frozen=True)
class LaunchFacts:
    """`cluster` is the shape of the launch's clusters in CTAs, x first; `mesh_size` the CTAs of a cluster by the kernel's meshes.

    `grid_of_clusters` is true if meshes alone ask for the clusters: the grid of a launch then counts clusters along x, not CTAs.
    `grid_meets` is true once a barrier of the whole grid is recorded. `suspend_ns` is how long a barrier wait may put a thread to
    sleep before the thread looks again, a hint; None gives none. `registers` is how many a thread has at most when the kernel
    starts (`maxnreg=`); None leaves it to the compiler.
    """

    cluster: tuple[int, int, int] = ALONE
    mesh_size: int | None = None
    grid_of_clusters: bool = False
    grid_meets: bool = False
    suspend_ns: int | None = None
    registers: int | None = None

    @property
    def cluster_size(self) -> int:
        """CTAs in a cluster."""
        return prod(self.cluster)

    def with_mesh(self, size: int) -> LaunchFacts:
        """These facts for a kernel that uses a mesh of `size` CTAs a cluster; the word has checked that the two agree."""
        meshed = self.grid_of_clusters or size > 1 and self.cluster == ALONE
        return replace(self, mesh_size=size, cluster=(size, 1, 1) if meshed else self.cluster, grid_of_clusters=meshed)

    def with_suspend(self, nanoseconds: int) -> LaunchFacts:
        """These facts with the hint of one more task region; of several hints the smallest counts."""
        known = nanoseconds if self.suspend_ns is None else min(self.suspend_ns, nanoseconds)
        return replace(self, suspend_ns=known)

    def with_grid_barrier(self) -> LaunchFacts:
        """These facts for a kernel with a barrier of the whole grid."""
        return replace(self, grid_meets=True)
