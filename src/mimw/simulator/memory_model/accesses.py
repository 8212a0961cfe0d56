"""Accesses to memory held against each other: each access is checked against the earlier ones to the same bytes (FastTrack:
Flanagan and Freund, PLDI 2009).

Input: an access: actor, op, the bytes as a numpy view or as offsets, read or write, proxy. Output: nothing, or a `DataRace`. For
example:

    place = order.place(view)
    order.touch(task, op, place, "'tiles'[0]", write=True)     compared with all reads and writes of these bytes that still count

A memory is divided into cells (`shadow`), and each cell is in a `State` (`states`): the accesses that later ones have to come
after. Many cells share one state. Only states of bytes that can still be reached are kept, so neither more accesses nor more CTAs
make the tables grow; only reads of the same bytes without any order among them do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...ir import Op
from .clocks import ASYNC, FENCED, GENERIC, GLOBAL, REUSABLE, VACANT, Epoch
from .race_report import race
from .shadow import Place, Shadow, owner_of
from .states import Numbers, State

_SMALL = 32                 # cells that are looked at one by one
_ALL = np.logical_and.reduce        # as the method `all`, without numpy's way to it through Python


@dataclass(eq=False, slots=True)
class MemoryAccess:
    """One access, as it is remembered and reported."""

    strand: Any
    epoch: Epoch
    op: Op
    name: str
    write: bool
    proxy: str
    scope: str                              # of an atomic access: cta, gpu or sys; else empty
    space: str
    bytes: tuple[int, int]                  # the first byte of its memory that it touches, and the one behind the last
    number: int                             # in the order of all accesses
    over: tuple[Epoch, ...] = ()            # of a write: those that it took the place of


class AccessOrder:
    """The part of `Order` about plain accesses; raises a `DataRace` at the one that completes one."""

    def __init__(self):
        self.operations = 0                 # accesses looked at
        self.apart = True                   # no cluster has heard of any other yet
        self._states = Numbers(State())
        self._born = 0
        self._shadows: dict[tuple[int, str], Shadow] = {}

    def place(self, data: np.ndarray) -> Place | None:
        """The place of a numpy view, for `touch`, for as long as the order knows its memory; None if it has no element."""
        return self._shadow(owner_of(data)).view(data) if data.size else None

    def touch(self, actor, op: Op, place: Place | None, name: str, *, write: bool, proxy: str = GENERIC, scope: str = "",
              space: str = "shared") -> None:
        """An access of `actor` to all elements of a view."""
        if place is not None:
            if place.grain != place.shadow.grain:
                place.fit()
            self._note(place, self._access(actor, op, name, write, proxy, scope, space, place.extent))

    def scatter(self, actor, op: Op, memory: np.ndarray, offsets: np.ndarray, size: int, name: str, *, write: bool,
                proxy: str = GENERIC, scope: str = "", space: str = "global") -> None:
        """An access to elements of `size` bytes at byte `offsets` of a memory."""
        count = offsets.size
        if not count:
            return
        shadow, first = self._shadow(memory), int(offsets[0])
        if int(offsets[-1]) - first == (count - 1) * size and (offsets[1:] - offsets[:-1] == size).all():
            self.touch(actor, op, shadow.stretch(first, count * size), name, write=write, proxy=proxy, scope=scope, space=space)
            return
        at = shadow.at(offsets, size)
        extent = int(offsets.min()), int(offsets.max()) + size
        access = self._access(actor, op, name, write, proxy, scope, space, extent)
        numbers = shadow.cells[at]

        def span(number: int) -> tuple[int, int]:
            found = at[numbers == number]
            return int(found.min()) * shadow.grain, (int(found.max()) + 1) * shadow.grain

        shadow.cells[at] = self._renumbered(numbers, access, None, span)
        shadow.changes += 1

    def close(self) -> None:
        """No more accesses come. A shadow knows how to leave this collection, so it would stay with it."""
        for shadow in self._shadows.values():
            shadow.close()
        self._shadows.clear()

    def _access(self, actor, op: Op, name: str, write: bool, proxy: str, scope: str, space: str, extent) -> MemoryAccess:
        if self._states.full:
            self._states.sweep(shadow for (_, use), shadow in self._shadows.items() if use == "accesses")
        self.operations += 1
        strand = actor.strand
        return MemoryAccess(strand, strand.epoch, op, name, write, proxy, scope, space, extent, self.operations)

    def _shadow(self, memory: np.ndarray, use: str = "accesses") -> Shadow:
        key = id(memory), use
        found = self._shadows.get(key)
        if found is None:
            numbers, shadows = self._states if use == "accesses" else self._heard, self._shadows

            def gone() -> None:
                shadow = shadows.pop(key)
                shadow.close()
                numbers.drop(shadow.cells)

            found = self._shadows[key] = Shadow(memory, gone)
        return found

    def _note(self, place: Place, access: MemoryAccess) -> None:
        """An access to the cells of a place."""
        shadow, cells, size = place.shadow, place.cells, place.size
        if place.seen == shadow.changes:        # one number, as when this place was last looked at
            numbers, first = (), place.number
        elif cells.size > _SMALL:
            numbers, first = cells, cells.item(0)
            if _ALL(cells == first, axis=None):
                numbers = ()
        else:
            numbers = cells.ravel().tolist()
            first = numbers[0]
            if numbers.count(first) == len(numbers):
                numbers = ()
        if not len(numbers):
            number = self._next(first, access, size, place.span)
            if number != first:
                cells[...] = number
                shadow.changes += 1
            place.seen, place.number = shadow.changes, number
            return
        shadow.changes += 1
        if numbers is cells:
            cells[...] = self._renumbered(cells, access, size and shadow.grain, place.span)
            return
        new = {number: self._next(number, access, size and shadow.grain * numbers.count(number), place.span)
               for number in sorted(set(numbers), key=self._age)}
        cells[...] = np.array([new[number] for number in numbers], np.int32).reshape(cells.shape)

    def _renumbered(self, cells: np.ndarray, access: MemoryAccess, grain: int | None, span):
        """The numbers that take the place of those of `cells`, in which no cell is twice if its `grain` is given."""
        counts = np.bincount(cells.ravel())     # numbers of states are small, for they are used again
        sizes = {number: counts.item(number) for number in np.flatnonzero(counts).tolist()}
        table = np.zeros(counts.size, np.int32)
        for number in sorted(sizes, key=self._age):
            table[number] = self._next(number, access, grain and grain * sizes[number], span)
        return table[cells]

    def _age(self, number: int) -> int:
        return self._states[number].born

    def _next(self, number: int, access: MemoryAccess, size: int | None, span) -> int:
        """Check `access` against the state of some cells, `size` bytes of them; the number of their next state."""
        state = self._states[number]
        clock, generic = access.strand.clock, access.proxy is not ASYNC
        for earlier in (*state.writes, *state.all_reads()) if access.write else state.writes:
            epoch = earlier.epoch
            # The end of an asynchronous operation is a fence towards the generic proxy.
            if clock.get(epoch.strand, 0) < epoch.tick or not (generic or earlier.proxy is ASYNC):
                self._check(earlier, access, number, span)
        if access.write:
            access.over = tuple([earlier.epoch for earlier in state.writes])
            if access.proxy is VACANT:      # what comes later has to be fenced from what was there, still
                writes = (*[earlier for earlier in state.writes if earlier.proxy is not VACANT], access)
                return self._put(number, state, size, writes, dict(state.reads), state.last)
            # Atomic accesses do not order each other: the writes that a later plain access must follow are all of them.
            writes = (*_not_superseded(state.writes, access), access) if access.scope else (access, )
            return self._put(number, state, size, writes, {}, None)
        last = state.last
        if last is not None and last.epoch is access.epoch and last.op is access.op:
            return number
        alone = number and size is not None and state.owned == size
        reads, cluster = state.reads if alone else dict(state.reads), access.strand.task.cta.cluster
        # Where clusters know nothing of each other, the reads of the others stay as they are.
        for other in (cluster, ) if self.apart else list(reads):
            reads[other] = _not_superseded(reads.get(other, ()), access)
        reads[cluster] = (*reads.get(cluster, ()), access)
        return self._put(number, state, size, state.writes, reads, access)

    def _put(self, number: int, state: State, size: int | None, writes: tuple, reads: dict, last: MemoryAccess | None) -> int:
        """`size` bytes leave `state` for a new one: it becomes that, if there are no others in it."""
        self._born += 1
        if number and size is not None and state.owned == size:
            state.writes, state.reads, state.last, state.born = writes, reads, last, self._born
            return number
        if state.owned is not None:
            state.owned = None if size is None else state.owned - size
        return self._states.add(State(writes, reads, last, size, self._born))

    def _check(self, earlier: MemoryAccess, later: MemoryAccess, number: int, span) -> None:
        """Raise the race of two accesses that are not ordered, or not fenced where the later one is in the asynchronous proxy."""
        clock, epoch = later.strand.clock, earlier.epoch
        if clock.get(epoch.strand, 0) >= epoch.tick:
            aspect = _between_proxies(earlier, later)
            if aspect is not None and not epoch.before(clock, aspect):
                raise race(self.machine, earlier, later, span(number), fence=True)
            return
        if earlier.scope and later.scope and _within(earlier, later):
            return
        raise race(self.machine, earlier, later, span(number), writes=self._states[number].writes)


def _within(earlier: MemoryAccess, later: MemoryAccess) -> bool:
    """True if the scope of each of two atomic accesses holds both."""
    one, other = earlier.strand.task.cta, later.strand.task.cta
    scopes = earlier.scope, later.scope
    return one is other or "cta" not in scopes and (one.gpu is other.gpu or "gpu" not in scopes)


def _not_superseded(some: tuple[MemoryAccess, ...], later: MemoryAccess) -> tuple[MemoryAccess, ...]:
    """Without those that need not be remembered beside `later`: what comes after it comes after them, and is fenced from them if it
    is from it."""
    if not some:
        return some
    clock, strand, tick, fenced = later.strand.clock, later.epoch.strand, later.epoch.tick, later.proxy is ASYNC
    return tuple([one for one in some if fenced and one.proxy is GENERIC or
                  clock.get(one.epoch.strand, 0) < one.epoch.tick and not (one.epoch.strand == strand and one.epoch.tick <= tick)])


def _between_proxies(earlier: MemoryAccess, later: MemoryAccess) -> int | None:
    """The fence that a generic access and a later asynchronous one to the same bytes need, as an aspect of clocks; None if none."""
    if earlier.proxy is VACANT:
        return None
    if later.space == "shared":
        if later.write:
            return REUSABLE
        # The compiler fences what a task wrote itself before an asynchronous dot, or a tmem_copy, of that task reads it. In a
        # program that another compiler has finished the fence stands, or is missing.
        own = earlier.strand.task is later.strand.task and not later.op.attrs.get("finished")
        return None if own and not later.op.row.traits.isdisjoint(("dot", "fenced")) else FENCED
    if later.space == "tensor":
        return None     # Tensor memory is reached by tcgen05 operations only, whose order is that of their waits.
    return GLOBAL if earlier.write and (not later.write or later.scope) else None
