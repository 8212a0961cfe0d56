"""Two halves of a task's waves, one stage of a loop apart: which accesses to memory that leaves without an order.

Input: where stages begin, and the task's accesses in them, which the simulator makes once, in the order of the body. Output:
nothing, or a `DataRace` for two accesses to shared memory that are not two stages apart, or to global memory in one loop. An
example:

    order.part(task)                the loop begins
    order.next_stage(task)          stage 1: local_store tiles[0]
    order.next_stage(task)          stage 2: local_load tiles[0]     DataRace: the first half reads while the second one writes

While the first half is in stage k + 1 the second one is in stage k, and both end these at one barrier. So stage k of one half is
over when the other half starts stage k + 2; Triton puts the waits for LDS at the barriers between (ConvertWarpPipeline looks at
stages two and more apart). In one stage, and in neighbouring ones, a half comes too early to what the other half does, whichever
barrier there is. Which elements of a tile lie in which half only layouts say; so each half may touch all of them, but for what one
op touches in one stage. A copy lasts from its issue to the stage behind which it is waited for: each half waits for its own part.

At no barrier between stages a half waits for its loads from and stores to global memory, so these are ordered when the halves meet.
One element of two tiles of the same shape and element size is one wave's, which does its own accesses in order: such tiles have one
layout, as a change of layout in a stage is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...compiler.analysis.warp_stages import staged
from ...errors import CopyReadEarly, DataRace, SlotReusedEarly, fail
from ...ir import Op

APART = 2       # stages: what is that far apart is ordered


@dataclass(eq=False, slots=True)
class _Access:
    """An access in a stage. `over`: the stage in which it has ended, None while a copy is under way."""

    op: Op
    name: str
    data: np.ndarray
    where: Any
    write: bool
    begun: int
    over: int | None
    copy: Any = None


@dataclass(eq=False, slots=True)
class _Global:
    """An access to global memory in a stage, of a tile of that shape, with so many bytes an element; `scope` of an atomic one."""

    op: Op
    shape: tuple[int, ...]
    size: int
    write: bool
    scope: str
    stage: int


class _Latest:
    """The latest access to each byte of an array: its number, from 1 on, and which element of its tile lies there."""

    def __init__(self, size: int):
        self.access, self.element = np.zeros(size, np.int32), np.zeros(size, np.int32)      # pages that nobody touches cost nothing

    def note(self, offsets: np.ndarray, number: int, elements: np.ndarray) -> None:
        self.access[offsets], self.element[offsets] = number, elements


@dataclass(eq=False, slots=True)
class _Halves:
    """A task in a loop of stages: the number of the stage, over all trips; accesses to shared memory to which later ones may be too
    close; accesses to global memory, and the latest of them at each byte of each array, that read or write."""

    stage: int = 0
    recent: list[_Access] = field(default_factory=list)
    everywhere: list[_Global] = field(default_factory=list)
    latest: dict[tuple[int, bool], _Latest] = field(default_factory=dict)


class HalvesOrder:
    """The part of `Order` about the two halves of a task."""

    def __init__(self):
        self.halves: dict[Any, _Halves] = {}
        self._store: bool | None = None         # True if a loop in stages writes global memory; None if not yet asked

    def part(self, task) -> None:
        """The halves of `task` part; its copies that nobody has waited for are under way."""
        halves = self.halves[task] = _Halves()
        for copy in self._copies.get(task.cta, ()):
            view = copy.destination
            if copy.task is task and view is not None and not copy.strand.epoch.before(task.strand.clock):
                halves.recent.append(_Access(copy.op, view.name, view.data, None, True, 0, None, copy))

    def next_stage(self, task, bare: bool = False) -> None:
        """`task` begins a stage; behind a `bare` border accesses of the stage before may still go on."""
        if (halves := self.halves.get(task)) is not None:
            if bare:
                for one in halves.recent:
                    one.over = halves.stage + 1 if one.copy is None and one.over == halves.stage else one.over
            halves.stage += 1
            halves.recent = [one for one in halves.recent if one.over is None or halves.stage - one.over < APART]

    def meet(self, task) -> None:
        """The halves of `task` meet."""
        self.halves.pop(task, None)

    def _waited(self, task) -> None:
        """`task` has waited for copies: those that are over, in either half, ended in the stage in front of the wait."""
        if (halves := self.halves.get(task)) is not None:
            for one in halves.recent:
                if one.over is None and one.copy.strand.epoch.before(task.strand.clock):
                    one.over = halves.stage

    def among_halves(self, actor, op: Op, data: np.ndarray, where, name: str, *, write: bool) -> None:
        """An access of `actor`, a task in stages or a copy of one, to elements of a view."""
        halves = self.halves.get(actor.task)
        if halves is None:
            return
        copy = None if actor is actor.task else actor
        access = _Access(op, name, data, where, write, halves.stage, halves.stage if copy is None else None, copy)
        for earlier in halves.recent:
            if earlier.over is not None and (write or earlier.write) and halves.stage - earlier.over < APART and \
                    not (earlier.op is op and earlier.begun == halves.stage) and _overlap(earlier, access):
                raise _too_close(actor.task, earlier, access, halves.stage - earlier.over)
        halves.recent.append(access)


    def among_halves_far(self, actor, op: Op, memory: np.ndarray, offsets: np.ndarray, elements: np.ndarray, shape, size: int,
                         name: str, *, write: bool, scope: str = "") -> None:
        """An access of `actor` to global memory: `elements` of a tile of that shape, `size` bytes each, at `offsets`."""
        halves = self.halves.get(actor.task)
        if halves is None or not self._stores():
            return
        access, array = _Global(op, tuple(shape), size, write, scope, halves.stage), memory.__array_interface__["data"][0]
        at = np.add.outer(offsets, np.arange(size)).reshape(-1)
        elements = np.repeat(elements, size)
        for writes in (True, False) if write else (True, ):
            latest = halves.latest.get((array, writes))
            if latest is not None:
                for number in np.unique(latest.access[at]).tolist():
                    earlier = halves.everywhere[number - 1] if number else access
                    if _unordered(earlier, access) and not (_alike(earlier, access) and (
                            latest.element[at] == elements)[latest.access[at] == number].all()):
                        raise _not_met(actor.task, earlier, access, name)
        halves.everywhere.append(access)
        latest = halves.latest.setdefault((array, write), _Latest(memory.nbytes))
        latest.note(at, len(halves.everywhere), elements)

    def _stores(self) -> bool:
        if self._store is None:
            loops = (loop for loop in self.machine.program.named("for") if staged(loop.blocks[0]) is not None)
            self._store = any(("pointer", "write") in op.row.touches or op.row.copy == "out" or "descriptor" in op.row.places
                              for loop in loops for op in loop.walk())
        return self._store


def _unordered(earlier: _Global, later: _Global) -> bool:
    """True if two accesses to one place have no order: not of what one op does in one stage, nor of two atomic ones."""
    return not (earlier.op is later.op and earlier.stage == later.stage or earlier.scope and later.scope)


def _alike(earlier: _Global, later: _Global) -> bool:
    """True if one wave has the same element of both: of tiles that are laid out alike; a single number is stored by one thread, and
    loaded by all."""
    return (earlier.shape, earlier.size) == (later.shape, later.size) and (bool(later.shape) or earlier.write and later.write)


def _not_met(task, earlier: _Global, later: _Global, name: str) -> DataRace:
    did, does = ("writes" if one.write else "reads" for one in (earlier, later))
    return fail(DataRace, task, later.op, f"{later.op.name} {does} {name}, which {earlier.op.name} at {earlier.op.site} {did} in "
                "the same loop of stages. Between stages the halves of the waves synchronise, but do not wait for their accesses "
                "to global memory: one half may reach the later access while the other half's earlier one is in flight",
                earlier.op.site, hint="pass it through shared memory, two borders apart; or end the loop between the two")


def _overlap(one: _Access, other: _Access) -> bool:
    if not np.may_share_memory(one.data, other.data):
        return False
    if one.where is None and other.where is None:
        return np.shares_memory(one.data, other.data)
    return bool(np.intersect1d(_bytes(one), _bytes(other)).size)


def _bytes(access: _Access) -> np.ndarray:
    """The addresses of all bytes of an access."""
    data, found = access.data, np.array([access.data.__array_interface__["data"][0]])
    if access.where is None:
        for extent, stride in zip(data.shape, data.strides):
            found = np.add.outer(found, stride * np.arange(extent)).reshape(-1)
    else:
        found = found + sum(np.asarray(index).reshape(-1) * stride for index, stride in zip(access.where, data.strides))
    return np.add.outer(found, np.arange(data.itemsize)).reshape(-1)


def _too_close(task, earlier: _Access, later: _Access, apart: int) -> DataRace:
    """The error for two accesses that are less than two stages apart."""
    copied = earlier.copy is not None
    kind = CopyReadEarly if copied else SlotReusedEarly if later.write and not earlier.write else DataRace
    did = f"{earlier.op.name} at {earlier.op.site} {'writes' if earlier.write else 'reads'}"
    far = "in that stage, too" if apart == 0 else "in the stage before"
    ended = f", which is waited for {'behind that stage' if apart == 0 else 'behind the stage before'}" if copied else f" {far}"
    hint = ("wait for it two stages ahead: behind the stage before that one" if copied else
            "put two borders between them, by a stage more or by buffers of which each is used every other trip")
    does = f"{later.op.name} {'writes' if later.write else 'reads'}"
    return fail(kind, task, later.op, f"{does} {later.name}, which {did}{ended}. The halves of the waves are one stage apart, so "
                "one half comes to the later access before the other half has done the earlier one", earlier.op.site, hint=hint)
