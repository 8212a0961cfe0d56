"""What atomic accesses to global memory do to the order: each element is a synchronising object, by the op's order and scope.

Input: the elements that an atomic op of a task accesses, with its order and scope. Output: clocks of the task and of the elements
that know more. For example:

    atomic_rmw ADD, release, gpu     the element carries what the task knows, for all CTAs
    atomic_load, acquire, gpu        the task that reads the element knows what the element carries
"""

from __future__ import annotations

import numpy as np

from ...ir import Op
from .between_gpus import Ears, Heard
from .clocks import join
from .states import Numbers


class AtomicOrder:
    """The part of `Order` about atomics. Of each element it is known what those have said that wrote it: to the tasks of one CTA
    under the CTA's number, to a whole GPU under that, and to all GPUs under "sys"; "teller" is who wrote it last."""

    def __init__(self):
        self._heard = Numbers({})
        self.ears = Ears()

    def atomic(self, task, op: Op, memory: np.ndarray, offsets: np.ndarray, size: int, name: str, *, order: str, scope: str,
               read: bool, write: bool) -> None:
        """An atomic access to elements of global memory, at once a synchronising object for each of them.

        order:   relaxed, acquire, release or acq_rel
        scope:   cta, gpu or sys; two accesses see each other's order if the scope of each holds both. So what is said at the scope
                 of a GPU stays there, and who listens at that scope hears nobody else (docs/MEMORY_MODEL.md, rule 37)
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
        reach = _reach(task, scope)
        if read:
            acquires = order in ("acquire", "acq_rel")
            for number in old:
                for key in (*reach, cta):
                    if known := self._heard[number].get(key):
                        self.apart = False
                        join(strand.clock if acquires else strand.far_heard if key == "sys" else strand.heard, known)
                if (teller := self._heard[number].get("teller")) and teller[0].cta.gpu is not task.cta.gpu:
                    self.ears.hear(task, Heard(*teller, op, order, scope))
        if not write:
            return
        releases = order in ("release", "acq_rel")
        new = []
        for number in old:
            # A read-modify-write carries on what was there; a plain store begins anew.
            left = {key: dict(clock) for key, clock in self._heard[number].items() if key != "teller"} if read else {}
            for key in (cta, *reach):
                join(left.setdefault(key, {}),
                     strand.clock if releases else strand.far_published if key == "sys" else strand.published)
            if task.cta.gpu.others:
                left["teller"] = task, op, order, scope
            new.append(self._heard.add(left))
        shadow.cells[at] = np.array(new, np.int32)[where]
        self._tick(strand)


def _reach(task, scope: str) -> tuple:
    """To whom beyond its CTA an atomic of `task` at that scope speaks, and whom it hears. On one GPU "sys" is as "gpu"."""
    if scope == "cta":
        return ()
    gpu = task.cta.gpu
    return (gpu, "sys") if scope == "sys" and gpu.others else (gpu, )
