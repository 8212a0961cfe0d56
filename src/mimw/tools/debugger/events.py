"""Events of a run: everything at which a debugger can stand, one after the other.

Input: what happens in a run, as the observer of its machine is told. Output: `Event`s, numbered from 0 in the order of the run. For
example:

    Event(OP, (0, 0, 0), "load", op, 1210.0)                        task 'load' is about to do `op`
    Event(PHASE, (0, 0, 0), "load", op, 1830.0, "full[0]", 0)       phase 0 of 'full'[0] has completed

A run is deterministic, so the same launch with the same seed has the same events, and the number of one names a moment.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ...ir import Op, Site
from .lines import shown

OP, WAIT, LAND, PHASE = "op", "wait", "land", "phase"


class Event(NamedTuple):
    """One thing that happens in a run.

    kind      OP: a task is about to do an op. WAIT: it cannot go on. LAND: an operation in flight is about to land. PHASE: a
              barrier has completed a phase
    cta       the program id, with the rank behind it on several GPUs
    task      the task; of a landing the one that has started the operation, of a phase the one whose op or copy completed it
    clock     the task's clock
    what      the wait in words; the kind of operation that lands; the barrier
    phase     the number of the phase that has completed
    before    the line of the op that the task did before this one
    again     whether a loop begins its next trip with this op
    into      the buffer, or part of one, that is written: "ring[1]". Of a copy that is when it lands, not when it is started
    """

    kind: str
    cta: tuple[int, ...]
    task: str
    op: Op
    clock: float
    what: str = ""
    phase: int = -1
    before: Site | None = None
    again: bool = False
    into: str = ""

    @property
    def actor(self) -> tuple[tuple[int, ...], str]:
        return self.cta, self.task

    def __str__(self) -> str:
        """The event in a sentence."""
        who, at = f"task {self.task!r} of CTA {self.cta}", shown(self.op.site)
        if self.kind == WAIT:
            return f"{who} waits at {at} for {self.what}"
        if self.kind == LAND:
            return f"the {self.what} that {who} started at {at} is about to land"
        if self.kind == PHASE:
            return f"phase {self.phase} (parity {self.phase & 1}) of {self.what} has completed, by {self.op.name} of {who} at {at}"
        return f"{who} is about to do {self.op.name} at {at}"


def barrier_label(barrier: Any) -> str:
    """The name of a barrier at the prompt: "full[0]", or "ring.free[1]" of a pipe."""
    if barrier.pipe is not None:
        return f"{barrier.pipe.name}.{barrier.pipe.side}[{barrier.index}]"
    return f"{barrier.root.name or f'barriers of line {barrier.made.line}'}[{barrier.index}]"


def is_on(site: Site | None, file: str, line: int) -> bool:
    """True if a position, or a call that led there, is on a line; `file` is the end of a path, "" for the kernel's own file."""
    if site is None:
        return False
    chain = site.chain()
    return any(one.line == line and (one.file.endswith(file) if file else one.file == chain[-1].file) for one in chain)
