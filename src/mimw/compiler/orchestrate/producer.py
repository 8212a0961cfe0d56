"""The task that loads: for each chunk of a ring it waits for a free slot, has TMA fill it, and publishes it.

Input: a plain program, the slice of its loads, and the rings. Output: the ops of the task. For example:

    x = a.load([m, k]); y = b.load([k, n])      acquire chunk; fetch a -> slot.x; fetch b -> slot.y; commit chunk; chunk += 1
"""

from __future__ import annotations

from .rebuild import Rebuild
from .rings import Ring


class Producer(Rebuild):
    """Writes the task of the loads."""

    def chunk(self, ring: Ring) -> None:
        site, pipe, number = ring.loads[-1].site, ring.root.pipe, self.counters[ring.root]
        views = self.views(ring)
        self.word("pipe_acquire", (pipe, number), views, site)
        for load, view in zip(ring.loads, views):
            given = self.now(load.descriptor), self.now(tuple(load.offsets)), view, load.cache_policy
            self.writer.emit("tma_fetch", given, load.site)
        self.word("pipe_commit", (pipe, number), (), site)
        self.next_chunk(ring, site)
