"""The task that loads, on chips with tensor memory: slots that products read are given back by the tensor core.

Input: as of `producer.py`, and the `Slots` of the rings that products read where they lie. Output: the ops of the task. For
example:

    x = a.load([m, k])      wait for x_free[slot]; expect bytes on x_full[slot]; TMA to x[slot], which arrives there; chunk += 1

Rings that the computing task reads into registers stay pipes, as of all chips.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...ir import Op, Program, Value
from ..analysis.slices import Slice
from .phases import Phases, Slots
from .producer import Producer
from .rings import Ring, Rings


class Fetcher(Producer):
    """Writes the task of the loads."""

    def __init__(self, program: Program, needs: Slice, rings: Rings, env: Mapping[Value, Value], slots: Mapping[Ring, Slots],
                 notes: dict[Op, str]):
        super().__init__(program, needs, rings, env, {})
        self.slots, self.phases = slots, Phases(self.writer, notes)

    def chunk(self, ring: Ring) -> None:
        slots = self.slots.get(ring.root)
        if slots is None:
            super().chunk(ring)
            return
        number, depth, site, phases = self.counters[ring.root], ring.root.stages, ring.loads[-1].site, self.phases
        if slots.free is not None:
            phases.wait(slots.free, number, depth, site, f"free again: line {ring.last.site.line} has read the chunk that was here",
                       before=True)
        full = phases.barrier(slots.full, number, depth, site)
        phases.emit("barrier_expect", (full, ring.bytes), site, f"line {ring.last.site.line} waits for it")
        for load, field in zip(ring.loads, slots.fields):
            given = self.now(load.descriptor), self.now(tuple(load.offsets)), full, phases.of(field, number, depth, load.site)
            phases.emit("tma_load", (*given, None, load.cache_policy), load.site)
        if slots.free is not None:
            self.next_chunk(ring, site)
