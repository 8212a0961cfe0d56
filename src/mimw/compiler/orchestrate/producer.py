"""The task that loads: for each chunk of a ring it waits for a free slot, has TMA or cp.async fill it, and publishes it.

Input: a plain program, the slice of its loads, and the rings. Output: the ops of the task. For example:

    x = a.load([m, k]); y = b.load([k, n])      acquire chunk; fetch a -> slot.x; fetch b -> slot.y; commit chunk; chunk += 1

TMA's copies complete with their chunk, whenever that is. For those of cp.async the task waits itself, `lag` chunks later (`lags.py`):

    x = tl.load(pointers)                       acquire chunk; async_load pointers -> slot.x; commit the group
                                                if chunk >= lag: wait for all groups but `lag`; commit chunk - lag;  chunk += 1
                                                behind the loop: wait for all groups; commit the chunks that are left
"""

from __future__ import annotations

from ...ir import I32, Block, Op, Site, Value
from .rebuild import Rebuild
from .rings import Ring


class Producer(Rebuild):
    """Writes the task of the loads."""

    def chunk(self, ring: Ring) -> None:
        site, pipe, number = ring.loads[-1].site, ring.root.pipe, self.counters[ring.root]
        views = self.views(ring)
        self.word("pipe_acquire", (pipe, number), views, site)
        for load, view in zip(ring.loads, views):
            if load.name == "descriptor_load":
                given = self.now(load.descriptor), self.now(tuple(load.offsets)), view, load.cache_policy
                self.writer.emit("tma_fetch", given, load.site)
        for load, view in zip(ring.loads, views):
            if load in ring.gathers:
                mask = self.now(load.mask) if "mask" in load.row.places else None
                self.writer.emit("async_load", (self.now(load.pointer), view, mask, None, load.cache_policy, False), load.site)
        if ring.gathers:
            self.writer.emit("async_commit", ((), ), site)
            self._landed(ring, number, site)
        else:
            self.word("pipe_commit", (pipe, number), (), site)
        self.next_chunk(ring, site)

    # ---- chunks that cp.async copies ----------------------------------------------------------------------------------------

    def _landed(self, ring: Ring, number: Value, site: Site) -> None:
        """Tell of the chunk whose copies were begun `lag` chunks ago."""
        if ring.lag:
            self._tell(ring, number, ring.lag, site, pending=ring.lag * ring.groups)
        else:
            self.writer.emit("async_wait", (0, ()), site)
            self.word("pipe_commit", (ring.root.pipe, number), (), site)

    def _tell(self, ring: Ring, number: Value, before: int, site: Site, pending: int | None = None) -> None:
        """If there is a chunk so many before `number`, since the last time that all were waited for: tell of it."""
        first = self.writer.constant(0, I32, site) if ring.drained is None else self.entered[ring.root]
        some = self.writer.emit("icmpSGE", (number, self.writer.by_constant("add", first, before, site)), site)
        outside = self.writer.open()
        if pending is not None:
            self.writer.emit("async_wait", (pending, ()), site)
        self.word("pipe_commit", (ring.root.pipe, self.writer.by_constant("sub", number, before, site)), (), site)
        self.writer.emit("yield", ((), ), site)
        then, outside = Block((), self.writer.close(outside)), self.writer.open()
        self.writer.emit("yield", ((), ), site)
        otherwise = Block((), self.writer.close(outside))
        self.writer.ops.append(Op("if", (some, ()), (), (then, otherwise), site=site))

    def behind(self, loop: Op, results: dict[Value, Value]) -> None:
        self._drain([ring for ring in self.rings.rings if ring.lag and ring.drained is loop])

    def end(self) -> None:
        self._drain([ring for ring in self.rings.rings if ring.lag and ring.drained is None])

    def _drain(self, rings: list[Ring]) -> None:
        """Wait for all copies, and tell of the chunks that are left."""
        if rings:
            self.writer.emit("async_wait", (0, ()), rings[0].loads[-1].site)
        for ring in rings:
            for before in range(ring.lag, 0, -1):
                self._tell(ring, self.counters[ring.root], before, ring.loads[-1].site)
