"""Descriptors that a kernel makes inside of a loop, made by the producer in slots of its own, in turn.

Input: a plain program and the rings of its loads. Output: which descriptors the producer makes, and room for each. For example, of
`for g: a_desc = tl.make_tensor_descriptor(a + at, [M, K], [K, 1], ..); for k: x = a_desc.load(..)`, with three slots of x:

    a_slots = tlx.allocate_tensor_descriptor(4)                         in front of the tasks
    made += chunk != since; since = chunk                               in the producer, where the kernel makes a_desc
    a_desc = tlx.make_tensor_descriptor(a_slots[made % 4], a + at, ..)

A copy reads its descriptor until it has landed, so a descriptor may be overwritten only then. The producer is ahead by as many
chunks as the pipe has slots, S: when it fills a slot of the pipe, the chunk S before that one has been given back, so it has
landed. There are S + 1 places for a descriptor, and each one that had a chunk takes the next place: when one is made anew in the
place of an older one, S others had a chunk each since, so the last chunk of the older one has been given back, and nobody waits.
One without any chunk (no tile, no trip) is overwritten where it is. So descriptors are counted for each pipe by itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...ir import Builder, Op, Program, Value
from ..analysis.uses import Uses, uses_of
from .rings import Ring, Rings


@dataclass(frozen=True)
class Count:
    """A number that goes round the producer's loops: of descriptors that `make` has made for chunks of a pipe (`since` False), or
    of the pipe's chunk at the last of them (True)."""

    make: Op
    ring: Ring
    since: bool

    @property
    def name(self) -> str:
        return "since" if self.since else "made"


def made_inside(uses: Uses, descriptor: Value) -> Op | None:
    """The op that makes a descriptor inside of a loop or branch; None for any other descriptor."""
    op = uses.definition.get(descriptor)
    return op if op is not None and op.name == "make_tensor_descriptor" and uses.place[op].parent is not None else None


def rooms(program: Program, rings: Rings, b: Builder) -> dict[tuple[Op, Ring], Value]:
    """Room for the descriptors that are made inside of loops for loads of a producer, by what makes them and the pipe."""
    uses, found = uses_of(program), {}
    for ring in rings.rings:
        for load in ring.loads:
            make = made_inside(uses, load.descriptor) if load.name == "descriptor_load" else None
            if make is not None and (make, ring.root) not in found:
                label = f"{make.result.name or 'desc'}_slots"
                found[make, ring.root] = b.emit("descriptor_slots", (ring.root.stages + 1, ), make.site, label=label)
    return found


def filled(b: Builder, make: Op, room: Value, made: Value, since: Value, chunk: Value) -> tuple[Value, Value]:
    """Make a descriptor in the next place; (the descriptor, how many there were that had a chunk)."""
    site, places = make.site, b.now(tuple(make.strides))
    moved = b.emit("icmpNE", (chunk, since), site)
    made = b.emit("select", (moved, b.by_constant("add", made, 1, site), made), site, label="made")
    slot = b.emit("descriptor_slot", (room, b.by_constant("srem", made, _count(room), site)), site)
    given = slot, b.now(make.base), b.now(tuple(make.shape)), places, make.padding
    return b.emit("fill_descriptor_slot", given, site, label=make.result.name, type=make.result.type), made


def _count(room: Value) -> int:
    return room.type.count
