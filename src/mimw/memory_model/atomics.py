"""What atomic accesses to global memory do to the order: each element is a synchronising object, by the op's order and scope.

Input: the elements that an atomic op of a task accesses, with its order and scope. Output: clocks of the task and of the elements
that know more. For example:

    atomic_rmw ADD, release, gpu     the element carries what the task knows, for all CTAs
    atomic_load, acquire, gpu        the task that reads the element knows what the element carries
"""

from __future__ import annotations

import numpy as np

from ..ir import Op
from .clocks import join
from .states import Numbers


class AtomicOrder:
    """The part of `Order` about atomics. Of each element it is known what those have said that wrote it: under "wide" to all CTAs,
    under the number of a CTA to its own tasks."""

    def __init__(self):
        self._heard = Numbers({})

    def atomic(self, task, op: Op, memory: np.ndarray, offsets: np.ndarray, size: int, name: str, *, order: str, scope: str,
               read: bool, write: bool) -> None:
        """An atomic access to elements of global memory, at once a synchronising object for each of them.

        order:   relaxed, acquire, release or acq_rel
        scope:   cta, gpu or sys; two accesses see each other's order if the scope of each holds both
        """
        self.scatter(task, op, memory, offsets, size, name, write=write, scope=scope)
        if not offsets.size:
            return
        if self.guide is not None:
            for offset in offsets[:64]:
                self.guide.touched((name, int(offset)), "write" if write else "read")
        shadow = self._shadow(memory, "atomics")
        if self._heard.full:
            self._heard.sweep(shadow for (_, use), shadow in self._shadows.items() if use == "atomics")
        at = shadow.at(offsets, size)
        old, where = np.unique(shadow.cells[at], return_inverse=True)
        strand, cta = task.strand, task.cta.number
        if read:
            for number in old:
                for known in (self._heard[number].get("wide") if scope != "cta" else None, self._heard[number].get(cta)):
                    if known:
                        self.apart = False
                        join(strand.clock if order in ("acquire", "acq_rel") else strand.heard, known)
        if not write:
            return
        said = strand.clock if order in ("release", "acq_rel") else strand.published
        new = []
        for number in old:
            # A read-modify-write carries on what was there; a plain store begins anew.
            left = {key: dict(clock) for key, clock in self._heard[number].items()} if read else {}
            for key in (cta, *(() if scope == "cta" else ("wide", ))):
                join(left.setdefault(key, {}), said)
            new.append(self._heard.add(left))
        shadow.cells[at] = np.array(new, np.int32)[where]
        self._tick(strand)
