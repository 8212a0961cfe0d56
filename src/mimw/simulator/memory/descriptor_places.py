"""Where descriptors that a kernel makes lie: 128 bytes each, which copies read for as long as they are in flight.

Input: a task, and the op that makes a descriptor. Output: the place, which notes who writes and who reads it. For example:

    place = own_place(task, op)             of `tl.make_tensor_descriptor`: one for each call site, written again in each round
    place.touch(store, op, write=False)     a TMA store by the descriptor reads the place until the store is over

PTX ISA, "tensormap.replace" and "cp.async.bulk.tensor": a copy reads its descriptor at some time before the copy is over.
What the place holds is the author's business (`descriptor_slots`); here is only when it is read and written.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

BYTES = 128         # of a descriptor: CUDA driver API, CUtensorMap


@dataclass(eq=False, slots=True)
class DescriptorPlace:
    """Room for one descriptor, private to a CTA; `name` as messages have it."""

    name: str
    memory: np.ndarray = field(default_factory=lambda: np.zeros(BYTES, np.uint8), repr=False)
    known: Any = None           # of the order of accesses, once there was one

    def touch(self, actor, op, *, write: bool) -> None:
        """`actor`, a task or a copy in flight, writes or reads the descriptor. Fences between proxies are the compiler's."""
        order = actor.machine.order
        if order.active:
            if self.known is None:
                self.known = order.place(self.memory)
            order.touch(actor, op, self.known, self.name, write=write, space="descriptor")


def own_place(task, op) -> DescriptorPlace:
    """The place of a descriptor that is made in no slot: one for each call site and task."""
    found = task.cta.descriptors.get((task.name, op))
    if found is None:
        found = task.cta.descriptors[task.name, op] = DescriptorPlace(f"the descriptor of line {op.site.line}")
    return found
