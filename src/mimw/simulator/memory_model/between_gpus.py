"""What is said of two accesses on different GPUs that nothing orders: which link of the chain between the ranks is missing or
too weak.

Input: the earlier and the later access, and the writes that both came after. Output: the kind of the error, what is missing, the
mend, and the lines of the signal. For example:

    between_gpus(ears, store of rank 0, load of rank 1, ())     ScopeTooNarrow, "the atomic_store at k.py:7, which ...",
                                                                'give the atomic_store at k.py:7 scope="sys"', (k.py:7, k.py:9)

Only atomics of system scope order what two GPUs do (PTX ISA, "Scope": a scope of gpu holds the threads of one device). What a task
has heard from atomics of other GPUs, whether they order or not, is kept as `Heard`, so that the report can name the line at fault.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

from ...errors import DataRace, MissingSystemFence, ScopeTooNarrow, SignalOvertakesData, SlotReusedEarly
from ...ir import Op

LAST = 16       # signals that a task remembers


@dataclass(frozen=True)
class Heard:
    """An atomic of `op` has read what an atomic of `teller` on another GPU wrote; the orders and scopes of both."""

    teller: Any
    said: Op
    said_order: str
    said_scope: str
    op: Op
    order: str
    scope: str


class Ears:
    """The signals that each task has received from other GPUs, the latest last."""

    def __init__(self):
        self._heard: dict[Any, deque[Heard]] = {}

    def hear(self, task, heard: Heard) -> None:
        self._heard.setdefault(task.strand, deque(maxlen=LAST)).append(heard)

    def of(self, strand, gpu) -> list[Heard]:
        """The signals that a strand has received from the tasks of `gpu`, the latest first."""
        return [heard for heard in reversed(self._heard.get(strand, ())) if heard.teller.cta.gpu is gpu]


def between_gpus(ears: Ears, earlier, later, writes: tuple) -> tuple[type[DataRace], str, str, tuple]:
    """(kind, what is missing, the mend, further sites) of two accesses on different GPUs."""
    first, second = earlier.strand, later.strand
    one, other = first.task, second.task
    if first.issued is not None and first.issued.before(second.clock):
        return (SignalOvertakesData, f"the second comes after the start of the {first.kind}, not after its end: the signal may "
                "overtake the data", f"let {one.name!r} call async_descriptor_store_wait(0) after {earlier.op.site} and before it "
                "signals: that wait, with the release at scope sys behind it, makes the bytes visible to peers", ())
    if earlier.scope and later.scope:
        narrow = [access for access in (earlier, later) if access.scope != "sys"]
        names = " and ".join(f"the {access.op.name} at {access.op.site} is of scope {access.scope}" for access in narrow)
        return (ScopeTooNarrow, f"{names}, which ends at the GPU: to each other they are no atomics",
                "give " + " and ".join(f"the {access.op.name} at {access.op.site}" for access in narrow) + ' scope="sys"', ())
    wait, plain = (earlier, later) if earlier.op.name == "signal_wait" else (later, earlier)
    if wait.op.name == "signal_wait" and not plain.scope:
        return (DataRace, f"the {plain.op.name} at {plain.op.site} is no atomic, and a wait reads the signal while it is "
                "written", f'set the signal by tlx.signal(pointer, value, op="set"), or add to it by tlx.signal, at '
                f"{plain.op.site}", ())
    if earlier.write and not later.write and any(epoch.before(second.clock) for epoch in earlier.over):
        return _reused(later, earlier)      # the reader knows of a write that this one took the place of
    if heard := ears.of(other.strand or second, one.cta.gpu):
        return _by(heard[0], earlier, later)
    known = (one.strand or first).clock     # a task that has ended has no strand any more
    if not earlier.write and any(write.epoch.before(known) for write in writes):
        return _reused(earlier, later)
    if later.write and not earlier.write:
        earlier, later, one, other = later, earlier, other, one     # that a read sees the write is what is mostly meant
    return (DataRace, f"nothing orders {one.where} before {other.where}",
            f"let {one.name!r} of rank {one.cta.gpu.rank} signal rank {other.cta.gpu.rank} after {earlier.op.site} with release at "
            f"scope sys, and {other.name!r} wait for that signal before {later.op.site} with acquire at scope sys; or call "
            "distributed_barrier at all ranks between the two", ())


def _reused(read, write) -> tuple[type[DataRace], str, str, tuple]:
    """A buffer is filled again while a peer may still read what it holds."""
    one, other = read.strand.task, write.strand.task
    return (SlotReusedEarly, f"no signal tells {other.where} that {one.where} has read the old value",
            f"let {one.name!r} of rank {one.cta.gpu.rank} signal rank {other.cta.gpu.rank} after {read.op.site}, and "
            f"{other.name!r} wait for that signal before {write.op.site}; both at scope sys", ())


def _by(heard: Heard, earlier, later) -> tuple[type[DataRace], str, str, tuple]:
    """The same, where the second task has heard something of the first GPU, which did not order the accesses."""
    sites = heard.said.site, heard.op.site
    told = f"the {heard.said.name} at {heard.said.site}, which the {heard.op.name} at {heard.op.site} has seen,"
    narrow = [(op, scope) for op, scope in ((heard.said, heard.said_scope), (heard.op, heard.scope)) if scope != "sys"]
    if narrow:
        names = " and ".join(f"the {op.name} at {op.site} is of scope {scope}" for op, scope in narrow)
        return (ScopeTooNarrow, f"{told} orders nothing between two GPUs: {names}, which ends at the GPU",
                "give " + " and ".join(f"the {op.name} at {op.site}" for op, _ in narrow) + ' scope="sys"', sites)
    if heard.said_order not in ("release", "acq_rel"):
        return (MissingSystemFence, f'{told} is {heard.said_order}, and no fence("sys") stands between it and the first access',
                f'give it sem="release", or put fence("sys") after {earlier.op.site} and before {heard.said.site}', sites)
    if heard.order not in ("acquire", "acq_rel"):
        return (MissingSystemFence, f'{told} is read {heard.order}, and no fence("sys") stands between that and the second access',
                f'give the {heard.op.name} sem="acquire", or put fence("sys") after {heard.op.site} and before {later.op.site}',
                sites)
    kind = DataRace if earlier.write else SlotReusedEarly
    return (kind, f"{told} was sent before the first access",
            f"signal after {earlier.op.site}, and wait for that signal before {later.op.site}", sites)
