"""The task that loads: for each chunk of a ring it waits for a free slot, has TMA fill it, and publishes it.

Input: a plain program, the slice of its loads, and the rings. Output: the ops of the task. For example:

    x = a.load([m, k]); y = b.load([k, n])      acquire chunk; fetch a -> slot.x; fetch b -> slot.y; commit chunk; chunk += 1

Descriptors that the kernel makes inside of a loop it makes anew, in places of its own (`slots_of_descriptors`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...ir import Op, Program, Value
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

    def counted(self) -> list[Any]:
        return [*super().counted(), *(Count(*key, since) for key in self.rooms for since in (False, True))]

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
            given = self._descriptor(load, ring), self.now(tuple(load.offsets)), view, load.cache_policy
            self.writer.emit("tma_fetch", given, load.site)
        self.word("pipe_commit", (pipe, number), (), site)
        self.next_chunk(ring, site)
