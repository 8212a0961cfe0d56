"""Happens-before: which accesses are ordered by the program, whatever the order in which they happened to run.

Every task is a strand with a vector clock. Releasing copies the clock into what is released, acquiring joins it; an access
is ordered after an earlier one if the clock of its strand has reached the earlier one's tick (FastTrack, over cells of
`shadow`). An asynchronous operation acts with its issuer's clock, on a tick that nobody has reached until a wait for its
group, or the barrier phase on which it landed, hands that on.

Proxies: a clock also says of every strand what of it has been fenced for the asynchronous proxy, in three aspects (`clocks`):
generic writes to shared memory for reading, generic accesses to it for overwriting, generic writes to global memory for reading.

What handlers of ops say (a task or an `InFlight` is an actor):

    issue, commit, wait_group, land           asynchronous operations and what finishes them
    touch(actor, op, data, name, write=...)   an access to a numpy view of shared or global memory
    scatter(actor, op, region, offsets, ...)  the same for elements at byte offsets of a region
    release, acquire, publish                 a synchronising object, which is any hashable thing
    fork, join, fence, atomic, looked, phase  see there
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..ir import Op
from . import clocks
from .barriers_in_order import BarrierOrder
from .clocks import ASPECTS, FENCED, GLOBAL, REUSABLE, Clock, Epoch, join
from .race_report import race, unfinished
from .shadow import Shadow, owner_of

GENERIC, ASYNC = "generic", "async"
_FENCES = {"async_shared": (FENCED, REUSABLE), "handover": (REUSABLE, ), "gpu": (GLOBAL, ), "sys": (GLOBAL, )}


@dataclass(eq=False)
class Strand:
    """A task, or an asynchronous operation with its issuer's clock at the issue."""

    task: Any
    epoch: Epoch
    clock: Clock
    issued: Epoch | None = None             # of an operation: the issuer's epoch
    kind: str = ""                          # of an operation: "TMA load", ...
    home: Any = None                        # of an operation: the CTA whose memory it writes, if that is another one's
    published: Clock = field(default_factory=dict)      # the clock at the last fence of device scope
    heard: Clock = field(default_factory=dict)          # read by relaxed atomics; counts from the next such fence on


@dataclass(eq=False)
class Access:
    """One access, as it is remembered and reported."""

    strand: Strand
    epoch: Epoch
    op: Op
    name: str
    write: bool
    proxy: str
    scope: str                              # of an atomic access: cta, gpu or sys; else empty
    space: str
    bytes: tuple[int, int]                  # the first byte of its memory that it touches, and the one behind the last
    over: tuple[Epoch, ...] = ()            # of a write: those that it took the place of


class Order(BarrierOrder):
    """The order of one launch; raises a `DataRace` at the access that completes one."""

    active = True

    def __init__(self, machine):
        super().__init__(machine)
        self.strands = 0
        self.operations = 0                 # accesses looked at
        self._groups: dict[tuple, list[int]] = {}                  # (task, kind) -> [strand, closed groups]
        self._states: list[tuple[tuple[Access, ...], tuple[Access, ...]]] = [((), ())]
        self._copies: dict = {}                                    # CTA -> the copies it has issued
        self._shadows: dict[tuple[int, str], Shadow] = {}
        self._heard: list[dict] = [{}]                             # what atomics left, by number in a shadow

    # ---- tasks ------------------------------------------------------------------------------------------------------

    def fork(self, parent, child) -> None:
        """`child` starts with what `parent` (None: the launch) knows."""
        number = self._number()
        strand = child.strand = Strand(child, Epoch(number, 1), {})
        if parent is not None:
            strand.clock = dict(parent.strand.clock)
            self._tick(parent.strand)
        strand.clock[number] = 1

    def join(self, parent, child) -> None:
        """`parent` waited for `child` to end."""
        join(parent.strand.clock, child.strand.clock)

    def _number(self) -> int:
        self.strands += ASPECTS
        return self.strands

    @staticmethod
    def _tick(strand: Strand) -> None:
        strand.epoch = Epoch(strand.epoch.strand, strand.epoch.tick + 1)
        strand.clock[strand.epoch.strand] = strand.epoch.tick

    # ---- synchronising objects --------------------------------------------------------------------------------------

    def release(self, task, key) -> None:
        """What `task` has done so far becomes part of `key`."""
        join(self.messages.setdefault(key, {}), task.strand.clock)
        self._tick(task.strand)

    def acquire(self, task, key) -> None:
        """`task` knows from here on what `key` carries."""
        message = self.messages.get(key)
        if message is not None:
            join(task.strand.clock, message)

    def publish(self, key, to) -> None:
        """`to` carries what `key` carries now, and nothing of what `key` gets later."""
        self.messages[to] = dict(self.messages.get(key, {}))

    def fence(self, task, scope: str) -> None:
        """`async_shared`: the asynchronous proxy may read and overwrite what is known here of shared memory; `handover`, which the
        compiler puts in: it may overwrite it. `gpu`, `sys`: it may read what is known here of global memory; what relaxed atomics
        read before counts from here on, and what they write later carries what is known here."""
        strand = task.strand
        if scope in ("gpu", "sys"):
            join(strand.clock, strand.heard)
        clocks.fence(strand.clock, *_FENCES[scope])
        if scope in ("gpu", "sys"):
            strand.published = dict(strand.clock)
        self._tick(strand)

    # ---- asynchronous operations ------------------------------------------------------------------------------------

    def issue(self, operation, group: str) -> None:
        """`operation` starts. It is finished by a wait for its group in the issuer's order of `group`s, or by landing
        on a barrier."""
        issuer = operation.task.strand
        strand, closed = self._group(operation.task, group)
        operation.strand = Strand(operation.task, Epoch(strand, closed + 1), dict(issuer.clock), issuer.epoch, operation.kind,
                                  operation.home)
        if group not in ("wgmma", "remote"):
            self._copies.setdefault(operation.home or operation.task.cta, []).append(operation)

    def exit(self, task) -> None:
        """`task`, which knows all that its CTA has done, is the last of it to end."""
        for operation in self._copies.pop(task.cta, ()):
            if not operation.strand.epoch.before(task.strand.clock):
                raise unfinished(operation, task)

    def commit(self, task, group: str) -> None:
        """The operations issued since the last commit are one group."""
        self._group(task, group)[1] += 1

    def wait_group(self, task, group: str, pending: int) -> None:
        """All groups but the `pending` newest are finished."""
        strand, closed = self._group(task, group)
        if closed > pending:
            task.strand.clock[strand] = max(task.strand.clock.get(strand, 0), closed - pending)

    def _group(self, task, group: str) -> list[int]:
        found = self._groups.get((task, group))
        if found is None:
            found = self._groups[task, group] = [self._number(), 0]
        return found

    # ---- memory -----------------------------------------------------------------------------------------------------

    def touch(self, actor, op: Op, data: np.ndarray, name: str, *, write: bool, proxy: str = GENERIC, scope: str = "",
              space: str = "shared") -> None:
        """An access of `actor` to all elements of a numpy view."""
        if not data.size:
            return
        shadow = self._shadow(owner_of(data), data.itemsize)
        cells, extent = shadow.view(data)
        first = cells.flat[0]
        access = Access(actor.strand, actor.strand.epoch, op, name, write, proxy, scope, space, extent)
        self.operations += 1
        if (cells == first).all():
            cells[...] = self._next(int(first), access, lambda number: shadow.span(cells, cells == number))
            return
        numbers, where = np.unique(cells, return_inverse=True)
        new = [self._next(int(number), access, lambda number: shadow.span(cells, cells == number)) for number in numbers]
        cells[...] = np.array(new, np.int32)[where].reshape(cells.shape)

    def scatter(self, actor, op: Op, memory: np.ndarray, offsets: np.ndarray, size: int, name: str, *, write: bool,
                proxy: str = GENERIC, scope: str = "", space: str = "global") -> None:
        """An access to elements of `size` bytes at byte `offsets` of a memory."""
        if not offsets.size:
            return
        shadow = self._shadow(memory, size)
        at = shadow.at(offsets, size)
        extent = int(offsets.min()), int(offsets.max()) + size
        access = Access(actor.strand, actor.strand.epoch, op, name, write, proxy, scope, space, extent)
        self.operations += 1
        numbers = shadow.cells[at]

        def span(number: int) -> tuple[int, int]:
            found = at[numbers == number]
            return int(found.min()) * shadow.grain, (int(found.max()) + 1) * shadow.grain

        if (numbers == numbers[0]).all():
            shadow.cells[at] = self._next(int(numbers[0]), access, span)
            return
        old, where = np.unique(numbers, return_inverse=True)
        shadow.cells[at] = np.array([self._next(int(number), access, span) for number in old], np.int32)[where]

    def _shadow(self, memory: np.ndarray, grain: int, use: str = "accesses") -> Shadow:
        found = self._shadows.get((id(memory), use))
        if found is None:
            found = self._shadows[id(memory), use] = Shadow(memory, grain)
        return found

    def _next(self, number: int, access: Access, span) -> int:
        """Check `access` against the state of some cells; the number of their next state."""
        writes, reads = self._states[number]
        for earlier in writes:
            self._check(earlier, access, number, span)
        if access.write:
            for earlier in reads:
                self._check(earlier, access, number, span)
            access.over = tuple(earlier.epoch for earlier in writes)
            # Atomic accesses do not order each other: the writes that a later plain access must follow are all of them.
            state = ((*(one for one in writes if access.scope and not self._superseded(one, access)), access), ())
        else:
            if reads and reads[-1].epoch is access.epoch and reads[-1].op is access.op:
                return number
            state = writes, (*(one for one in reads if not self._superseded(one, access)), access)
        self._states.append(state)
        return len(self._states) - 1

    @staticmethod
    def _superseded(earlier: Access, later: Access) -> bool:
        """Whether what comes after `later` comes after `earlier`, and is fenced from `earlier` if it is from `later`."""
        if earlier.proxy is GENERIC and later.proxy is ASYNC:
            return False
        one, other = earlier.epoch, later.epoch
        return one.before(later.strand.clock) or (one.strand == other.strand and one.tick <= other.tick)

    def _check(self, earlier: Access, later: Access, number: int, span) -> None:
        strand = later.strand
        if earlier.epoch.before(strand.clock):
            aspect = _between_proxies(earlier, later)
            if aspect is not None and not earlier.epoch.before(strand.clock, aspect):
                raise race(self.machine, earlier, later, span(number), fence=True)
            return
        if earlier.scope and later.scope:
            if "cta" not in (earlier.scope, later.scope) or earlier.strand.task.cta is later.strand.task.cta:
                return
        raise race(self.machine, earlier, later, span(number))

    # ---- atomics ----------------------------------------------------------------------------------------------------

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
        shadow = self._shadow(memory, size, "atomics")
        at = shadow.at(offsets, size)
        old, where = np.unique(shadow.cells[at], return_inverse=True)
        strand, cta = task.strand, task.cta.number
        if read:
            for number in old:
                for known in (self._heard[number].get("wide") if scope != "cta" else None, self._heard[number].get(cta)):
                    if known is not None:
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
            self._heard.append(left)
            new.append(len(self._heard) - 1)
        shadow.cells[at] = np.array(new, np.int32)[where]
        self._tick(strand)


def _between_proxies(earlier: Access, later: Access) -> int | None:
    """Which fence two ordered accesses to the same bytes need between them, as an aspect of clocks; None if they need none."""
    if later.proxy is not ASYNC or earlier.proxy is not GENERIC:
        return None     # the end of an asynchronous operation is a fence towards the generic proxy
    if later.space == "shared":
        if later.write:
            return REUSABLE
        # The compiler fences what a task wrote itself before an asynchronous dot of that task reads it.
        return None if later.op.name == "async_dot" and earlier.strand.task is later.strand.task else FENCED
    return GLOBAL if earlier.write and (not later.write or later.scope) else None


class Unordered:
    """Nothing is recorded: what a machine has that does not look for races."""

    active, operations = False, 0

    def _nothing(self, *args, **fields) -> None:
        """Says nothing."""

    fork = join = release = acquire = publish = fence = issue = commit = wait_group = touch = scatter = atomic = _nothing
    exit = made = used = fence_init = arrives = looked = phase = land = _nothing
