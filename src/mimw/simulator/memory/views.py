"""Shared memory: allocations, and views of buffers.

Input: the types and places of allocations. Output: views, with the elements' data and marks. For example:

    view = allocate("tiles", buffer_type, site).part(0, "[0]")
    view.read(task, op)      the elements; poison where no op has written one
    view.check(task, op)     an error if no op has written one: for what uses the elements at once, as copies and products do

Each byte knows whether it has been written, and whether with poison (`machine/poison.py`). A copy in flight marks its destination
until the copy lands, so a read that comes before the data is an error, with the barrier or group for which the reader should have
waited. Views are numpy views of data and marks alike.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...errors import CopyReadEarly, fail
from ..machine.poison import Origin, Poisoned, poisoned
from ..machine.tasks import InFlight
from ..memory_model import GENERIC, VACANT
from ..memory_model.shadow import address_of, owner_of
from .values import numpy_type

WRITTEN = -1                  # marks are integers as wide as an element, and alike in each byte: 0 is fresh, 0xFF written
_COMING, _SPOILT = 0x01, 0x02       # a byte on its way; one written with what nobody has written
_ONES = {1: 0x01, 2: 0x0101, 4: 0x01010101, 8: 0x0101010101010101}      # one in each byte, by the bytes of an element
PARTS = 256                   # parts of a view that are remembered
_UNKNOWN = object()
_ALL = np.bitwise_and.reduce  # of marks: WRITTEN if each is; half the time of comparing them one by one


@dataclass(eq=False)
class Allocation:
    """The memory of one execution of a `local_alloc`. It starts as garbage: every byte 0xFF, NaN in any float."""

    name: str
    coming: list[InFlight] = field(default_factory=list)
    owner: str = ""           # whose memory it is, for messages, where CTAs share theirs
    space: str = "shared"     # or "tensor"
    columns: Any = None       # of tensor memory that arrays share: `tensor_aliases.Columns`
    spoilt: Origin | None = None        # of the poison that was stored here last


@dataclass(eq=False, slots=True)
class View:
    """A buffer, or part of one: data and, of the same shape and strides, the marks of its elements. Nothing of it changes, so what
    was found of it is kept: its parts, its name and its place in the order of accesses."""

    allocation: Allocation
    data: np.ndarray
    marks: np.ndarray
    path: str = ""
    group_size: int = 1       # of an array: buffer i is data[i // group_size, i % group_size], unless this is 1
    _parts: dict[Any, Any] = field(default_factory=dict, init=False)
    _name: str | None = field(default=None, init=False)
    _place: Any = field(default=_UNKNOWN, init=False)

    @property
    def count(self) -> int:
        """Of an array: how many buffers it has; of one buffer: its leading extent."""
        return self.data.shape[0] * self.group_size

    @property
    def name(self) -> str:
        if self._name is None:
            self._name = f"{self.allocation.name!r}{self.path}"
        return self._name

    def kept(self, what: Any) -> Any:
        """The part, or what else of the view, that was kept as `what`; None if nothing was."""
        return self._parts.get(what)

    def keep(self, what: Any, part: Any) -> Any:
        """`part`, which is found as `what` from here on."""
        if len(self._parts) >= PARTS:
            self._parts.clear()
        self._parts[what] = part
        return part

    def part(self, select, path: str) -> View:
        """A view of a part; `select` is a numpy index made of integers and slices."""
        return View(self.allocation, self.data[select], self.marks[select], self.path + path)

    @property
    def extents(self) -> tuple[int, ...]:
        """The shape of the buffer."""
        return self.data.shape

    @property
    def tile(self) -> np.ndarray:
        """The elements as a tile of that shape, whether they have been written or not."""
        return self.data

    def cut(self, box: tuple[slice, ...], path: str) -> View:
        """A part of one buffer, a slice of each dimension."""
        return self.part(box, path)

    def trans(self, order: tuple[int, ...]) -> View:
        return self._parts.get(order) or self.keep(order, View(
            self.allocation, self.data.transpose(order), self.marks.transpose(order), self.path + ".T"))

    def seen_as(self, type_, site) -> View | None:
        """The same bytes as a buffer or array of another type; None if they do not follow each other."""
        dtype, ahead = numpy_type(type_.element, site), 0
        if type_.count and self.allocation.space == "tensor" and self.data.ndim == 2:
            return self._side_by_side(type_, dtype)
        if type_.count:
            ahead = 2 if self.group_size > 1 else 1
        lead = self.data.shape[:ahead]
        parts = []
        for part, kind in ((self.data, dtype), (self.marks, np.dtype(f"i{dtype.itemsize}"))):
            if part.shape[ahead:-1] == type_.shape[:-1] and part.strides[-1] == part.itemsize and kind.itemsize < part.itemsize:
                parts.append(part.view(kind)[..., :type_.shape[-1]])      # of tensor memory: the first columns
                continue
            if kind.itemsize == part.itemsize and np.may_share_memory(same := part.reshape((*lead, *type_.shape)), part):
                parts.append(same.view(kind))
                continue
            flat = part if part.shape[ahead:] == type_.shape else part.reshape((*lead, -1))
            if not np.may_share_memory(flat, part) or kind.itemsize != part.itemsize and flat.ndim > ahead + 1 and \
                    flat.strides[-1] != part.itemsize:
                return None
            parts.append(flat.view(kind).reshape((*lead, *type_.shape)))
        return View(self.allocation, *parts, f"{self.path} as {type_}", self.group_size if ahead else 1)

    def _side_by_side(self, type_, dtype) -> View | None:
        """Columns of tensor memory as an array of buffers, which lie side by side; None if the columns are others."""
        rows, columns = type_.shape
        kinds = (self.data, dtype), (self.marks, np.dtype(f"i{dtype.itemsize}"))
        wide = type_.count * columns * dtype.itemsize
        if len(self.data) != rows or self.data[0].nbytes != wide or not self.data.flags.c_contiguous:
            return None
        parts = (part.view(kind).reshape(rows, type_.count, columns).transpose(1, 0, 2) for part, kind in kinds)
        return View(self.allocation, *parts, f"{self.path} as {type_}", 1)

    def read(self, task, op, where=...) -> np.ndarray | Poisoned:
        """A copy of the elements, or of those at a numpy index and 0 elsewhere; poison where nobody has written. Refuses what is
        still on its way."""
        origin = self.lacking(task, op, where)
        if where is ...:
            found = self.data.copy()
            return found if origin is None else Poisoned(found, self.marks != WRITTEN, origin)
        found = np.zeros(self.data.shape, self.data.dtype)
        found[where] = self.data[where]
        if origin is None:
            return found
        mask = np.zeros(found.shape, bool)
        mask[where] = self.marks[where] != WRITTEN
        return Poisoned(found, mask, origin)

    def pick(self, task, op, where, of: str = "") -> np.ndarray | Poisoned:
        """The elements at a numpy index, as `read` gives them."""
        origin = self.lacking(task, op, where, of)
        return self.data[where] if origin is None else poisoned(self.data[where], self.marks[where] != WRITTEN, origin)

    def touch(self, actor, op, *, write: bool, proxy: str = GENERIC, where=None, scope: str = "") -> None:
        """Note an access of `actor`, a task or an operation in flight, to all elements or to those at a numpy index. One with a
        `scope` (cta, gpu) is atomic: it does not race with other atomic ones there."""
        order = actor.machine.order
        if not order.active:
            return
        name = self.name + self.allocation.owner
        if where is None:
            if self._place is _UNKNOWN:
                self._place = order.place(self.data)
            order.touch(actor, op, self._place, name, write=write, proxy=proxy, space=self.allocation.space)
            if order.halves:
                order.among_halves(actor, op, self.data, None, name, write=write)
            return
        memory = owner_of(self.data)
        offsets = sum((index.reshape(-1) * stride for index, stride in zip(where, self.data.strides)),
                      address_of(self.data) - address_of(memory))
        order.scatter(actor, op, memory, offsets, self.data.itemsize, name, write=write, proxy=proxy, scope=scope,
                      space="shared")
        if order.halves:
            order.among_halves(actor, op, self.data, where, name, write=write)

    def vacate(self, task, op) -> None:
        """The memory is nobody's: nothing that anybody has written is there any more. Refuses it while the task does not know all
        accesses to be over, of copies and products in flight as well."""
        self.touch(task, op, write=True, proxy=VACANT)
        self.marks[...] = 0

    def write(self, tile: np.ndarray | Poisoned, where=...) -> None:
        """Store the elements of a tile of the buffer's shape, or those for a numpy index."""
        if tile.__class__ is Poisoned:
            self.data[where] = tile.data
            self.marks[where] = np.where(tile.mask, self.byte(_SPOILT), WRITTEN)
            self.allocation.spoilt = tile.origin
            return
        self.data[where] = tile
        self.marks[where] = WRITTEN

    def byte(self, mark: int) -> int:
        """The mark of an element each byte of which has this one."""
        return mark * _ONES[self.marks.itemsize]

    def expect(self, copy: InFlight) -> None:
        """Mark the elements as coming with `copy`."""
        self.coming()
        self.allocation.coming.append(copy)

    def coming(self) -> None:
        """Mark the elements as on their way."""
        self.marks[...] = self.byte(_COMING)

    def arrive(self, copy: InFlight, tile: np.ndarray | Poisoned) -> None:
        """The data of `copy` are here."""
        self.allocation.coming.remove(copy)
        self.write(tile)

    def element(self, index: tuple[int, ...]) -> tuple[int, ...]:
        """The element of the buffer that lies at an index of `data`."""
        return index

    def check(self, task, op, where=..., of: str = "") -> None:
        """Refuse an op that uses an element (of those at the numpy index `where`) that nobody has written or whose data are still
        on their way. `of`: whose memory it is, if not the task's."""
        origin = self.lacking(task, op, where, of)
        if origin is not None:
            raise origin.refusal(task, op, f"reads it in {self.name}{of}")

    def lacking(self, task, op, where=..., of: str = "") -> Origin | None:
        """The read of the first element that nobody has written, of those at `where`; None if all are. Refuses what is still on its
        way."""
        if not task.machine.check_unwritten or _ALL(self.marks[where], axis=None) == WRITTEN:
            return None
        marks = self.marks[where]
        self._refuse_coming(task, op, marks, where, of)
        first = _first(marks != WRITTEN)
        element, spoilt = self.element(_along(where, first)), marks[first] == self.byte(_SPOILT)
        if spoilt and self.allocation.spoilt is not None:
            return self.allocation.spoilt
        return Origin(task, op, f"{op.name} reads {self.name}{of}, element {element}, which nobody has written")

    def _refuse_coming(self, task, op, marks: np.ndarray, where, of: str) -> None:
        """Refuse elements with a byte on its way. Such a byte has its lowest bit set, and not the next."""
        ones = marks.dtype.type(_ONES[marks.itemsize])
        late = (marks & ~(marks >> 1) & ones) != 0
        if not late.any():
            return
        index = _along(where, _first(late))
        element = self.marks[tuple(slice(i, i + 1) for i in index)]
        for copy in self.allocation.coming:
            if np.shares_memory(element, copy.destination.marks):
                raise fail(CopyReadEarly, task, op, f"{op.name} reads {self.name}{of}, element {self.element(index)}, before the "
                           f"{copy.kind} that {copy.task.where} started at {copy.op.site} has landed", copy.op.site,
                           hint=f"it lands by {copy.lands_by()}: wait for that first")


def _first(mask: np.ndarray) -> tuple[int, ...]:
    return tuple(int(i) for i in np.argwhere(mask)[0])


def _along(where, index: tuple[int, ...]) -> tuple[int, ...]:
    """The element of the buffer at an index of what `where` picks."""
    return index if where is ... else tuple(int(along[index]) for along in where)


def allocate(name: str, type_, site) -> View:
    """A fresh buffer or array of buffers."""
    dtype = numpy_type(type_.element, site)
    shape = (type_.count, *type_.shape) if type_.count else tuple(type_.shape)
    size = int(np.prod(shape)) * dtype.itemsize
    data = np.full(size, 0xFF, np.uint8).view(dtype).reshape(shape)
    marks = np.zeros(size, np.uint8).view(f"i{dtype.itemsize}").reshape(shape)
    return View(Allocation(name, space="tensor" if type_.space == "tmem" else "shared"), data, marks)


@dataclass(frozen=True, eq=False)
class StorageBytes:
    """Memory that arrays share: each of them is a view of these bytes and marks, so all see what one writes."""

    data: np.ndarray
    marks: np.ndarray
    coming: list[InFlight] = field(default_factory=list)

    def array(self, name: str, type_, place, site) -> View:
        """The buffers of one array; those of a slot are an axis of their own unless all follow each other."""
        dtype, tile = numpy_type(type_.element, site), tuple(type_.shape)
        rows = [dtype.itemsize * int(np.prod(tile[axis + 1:], dtype=int)) for axis in range(len(tile))]
        split = place.group_size > 1 and not place.is_contiguous
        count = (place.slots, place.group_size) if split else (place.count, )
        steps = (place.stride, place.size) if split else (place.size if place.is_contiguous else place.stride, )
        data, marks = (np.ndarray((*count, *tile), kind, memory, place.offset, (*steps, *rows))
                       for kind, memory in ((dtype, self.data), (f"i{dtype.itemsize}", self.marks)))
        return View(Allocation(name, self.coming), data, marks, group_size=place.group_size if split else 1)
