"""The task that loads: for each chunk of a ring it waits for a free slot, has TMA or cp.async fill it, and publishes it.

Input: a plain program, the slice of its loads, and the rings. Output: the ops of the task. For example:

    x = a.load([m, k]); y = b.load([k, n])      acquire chunk; fetch a -> slot.x; fetch b -> slot.y; commit chunk; chunk += 1

Descriptors that the kernel makes inside of a loop it makes anew, in places of its own (`slots_of_descriptors`).

TMA's copies complete with their chunk, whenever that is. For those of cp.async the task waits itself, some chunks later
(`lags.py`):

    x = tl.load(pointers)                       acquire chunk; async_load pointers -> slot.x; commit the group
                                                if chunk >= 2: wait for all groups but 2; commit chunk - 2;  chunk += 1
                                                behind the loop: wait for all groups; commit the chunks that are left
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...ir import I32, Block, Op, Program, Site, Value
from ..analysis.slices import Slice
from .rebuild import Rebuild
from .rings import Ring, Rings
from .slots_of_descriptors import Count, filled, made_inside


class Producer(Rebuild):
    """Writes the task of the loads; `rooms` are the places of the descriptors that it makes."""

    def __init__(self, program: Program, needs: Slice, rings: Rings, env: Mapping[Value, Value],
                 rooms: Mapping[tuple[Op, Ring], Value]):
        super().__init__(program, needs, rings, env)
        self.rooms, self.made = rooms, {}

    def numbered(self) -> list[Any]:
        return [*super().numbered(), *(Count(*key, since) for key in self.rooms for since in (False, True))]

    def inside(self, op: Op) -> list[Any]:
        made = set(op.walk())
        return [*super().inside(op), *(Count(make, ring, since) for make, ring in self.rooms if make in made
                                       for since in (False, True))]

    def own(self, op: Op) -> bool:
        """A descriptor for the loads of each pipe."""
        places = [(ring, room) for (make, ring), room in self.rooms.items() if make is op]
        for ring, room in places:
            made, since, chunk = Count(op, ring, False), Count(op, ring, True), self.counters[ring]
            self.made[op, ring], self.counters[made] = filled(self.writer, op, room, self.counters[made], self.counters[since],
                                                              chunk)
            self.counters[since] = chunk
        return bool(places)

    def _descriptor(self, load: Op, ring: Ring) -> Value:
        make = made_inside(self.uses, load.descriptor)
        return self.now(load.descriptor) if make is None else self.made[make, ring.root]

    def chunk(self, ring: Ring) -> None:
        site, pipe, number = ring.loads[-1].site, ring.root.pipe, self.counters[ring.root]
        views = self.views(ring)
        self.word("pipe_acquire", (pipe, number), views, site)
        for load, view in zip(ring.loads, views):
            if load.name == "descriptor_load":
                given = self._descriptor(load, ring), self.now(tuple(load.offsets)), view, load.cache_policy
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
        """Behind a group of copies: wait for older ones, and tell of the chunk that they have filled."""
        flight = ring.flight
        if flight is None:
            self.writer.emit("async_wait", (0, ()), site)
            self.word("pipe_commit", (ring.root.pipe, number), (), site)
        elif flight.surely:
            self.writer.emit("async_wait", (flight.pending, ()), site)
            self._commit(flight.tells, flight.before)
        else:
            self._tell(flight.tells, flight.before, flight.pending)

    def _commit(self, ring: Ring, before: int) -> None:
        site = ring.loads[-1].site
        number = self.writer.by_constant("sub", self.counters[ring.root], before, site)
        self.word("pipe_commit", (ring.root.pipe, number), (), site)

    def _tell(self, ring: Ring, before: int, pending: int | None = None) -> None:
        """Tell of the chunk so many before the next one, if there is one since all were last waited for."""
        site, number = ring.loads[-1].site, self.counters[ring.root]
        first = self.writer.constant(0, I32, site) if ring.flight.drained is None else self.entered[ring.root]
        some = self.writer.emit("icmpSGE", (number, self.writer.by_constant("add", first, before, site)), site)
        outside = self.writer.open()
        if pending is not None:
            self.writer.emit("async_wait", (pending, ()), site)
        self._commit(ring, before)
        self.writer.emit("yield", ((), ), site)
        then, outside = Block((), self.writer.close(outside)), self.writer.open()
        self.writer.emit("yield", ((), ), site)
        otherwise = Block((), self.writer.close(outside))
        self.writer.ops.append(Op("if", (some, ()), (), (then, otherwise), site=site))

    def behind(self, loop: Op, results: dict[Value, Value]) -> None:
        self._drain([ring for ring in self.rings.rings if ring.flight and ring.flight.drained is loop])

    def end(self) -> None:
        self._drain([ring for ring in self.rings.rings if ring.flight and ring.flight.drained is None])

    def _drain(self, rings: list[Ring]) -> None:
        """Wait for all copies, and tell of the chunks that are left."""
        if any(ring.flight.left for ring in rings):
            self.writer.emit("async_wait", (0, ()), rings[0].loads[-1].site)
        for ring in rings:
            for before in range(ring.flight.left, 0, -1):
                self._tell(ring, before)
