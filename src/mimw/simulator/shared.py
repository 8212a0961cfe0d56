"""Shared memory: buffers, views of them, and plain reads and writes.

Each byte knows whether it has been written. A copy in flight marks its destination until it lands, so a read that comes
before the data is an error, with what the reader should have waited for. Views are numpy views of data and marks alike.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..errors import CopyReadEarly, OutOfBounds, SimulatorMisuse, UnwrittenRead
from .order import GENERIC
from .shadow import address_of, owner_of
from .table import handles
from .tasks import InFlight, fail
from .values import numpy_type

WRITTEN, COMING = -1, 1       # marks are integers as wide as an element; a fresh one is 0. -1 is all ones at any width


@dataclass(eq=False)
class Allocation:
    """What one execution of a `local_alloc` made. Memory starts as garbage: every byte 0xFF, NaN in any float."""

    name: str
    coming: list[InFlight] = field(default_factory=list)
    home: str = ""            # whose memory it is, for messages, where CTAs share theirs


@dataclass(frozen=True, eq=False)
class View:
    """A buffer, or part of one: data and, of the same shape and strides, the marks of its elements."""

    allocation: Allocation
    data: np.ndarray
    marks: np.ndarray
    path: str = ""
    group_size: int = 1       # of an array: buffer i is data[i // group_size, i % group_size], unless this is 1

    @property
    def count(self) -> int:
        """Of an array: how many buffers it has; of one buffer: its leading extent."""
        return self.data.shape[0] * self.group_size

    @property
    def name(self) -> str:
        return f"{self.allocation.name!r}{self.path}"

    def part(self, select, path: str) -> View:
        """A view of a part; `select` is a numpy index made of integers and slices."""
        return View(self.allocation, self.data[select], self.marks[select], self.path + path)

    def trans(self, order) -> View:
        return View(self.allocation, self.data.transpose(order), self.marks.transpose(order), self.path + ".T")

    def seen_as(self, type_, site) -> View | None:
        """The same bytes as a buffer or array of another type; None if they do not follow each other."""
        dtype, ahead = numpy_type(type_.element, site), 0
        if type_.count:
            ahead = 2 if self.group_size > 1 else 1
        lead = self.data.shape[:ahead]
        parts = []
        for part, kind in ((self.data, dtype), (self.marks, np.dtype(f"i{dtype.itemsize}"))):
            flat = part if part.shape[ahead:] == type_.shape else part.reshape((*lead, -1))
            if not np.may_share_memory(flat, part) or kind.itemsize != part.itemsize and flat.ndim > ahead + 1 and \
                    flat.strides[-1] != part.itemsize:
                return None
            parts.append(flat.view(kind).reshape((*lead, *type_.shape)))
        return View(self.allocation, *parts, f"{self.path} as {type_}", self.group_size if ahead else 1)

    def read(self, task, op, where=...) -> np.ndarray:
        """A copy of the elements, or of those at a numpy index and 0 elsewhere; refuses what has not been written."""
        self.check(task, op, where)
        if where is ...:
            return self.data.copy()
        found = np.zeros(self.data.shape, self.data.dtype)
        found[where] = self.data[where]
        return found

    def touch(self, actor, op, *, write: bool, proxy: str = GENERIC, where=None, scope: str = "") -> None:
        """Note an access of `actor`, a task or an operation in flight, to all elements or to those at a numpy index. One with a
        `scope` (cta, gpu) is atomic: it does not race with other atomic ones there."""
        order = actor.machine.order
        if not order.active:
            return
        name = self.name + self.allocation.home
        if where is None:
            order.touch(actor, op, self.data, name, write=write, proxy=proxy)
            return
        memory = owner_of(self.data)
        offsets = sum((index.reshape(-1) * stride for index, stride in zip(where, self.data.strides)),
                      address_of(self.data) - address_of(memory))
        order.scatter(actor, op, memory, offsets, self.data.itemsize, name, write=write, proxy=proxy, scope=scope,
                      space="shared")

    def write(self, tile: np.ndarray) -> None:
        self.data[...] = tile
        self.marks[...] = WRITTEN

    def expect(self, copy: InFlight) -> None:
        """Mark the elements as coming with `copy`."""
        self.marks[...] = COMING
        self.allocation.coming.append(copy)

    def arrive(self, copy: InFlight, tile: np.ndarray) -> None:
        """The data of `copy` are here."""
        self.allocation.coming.remove(copy)
        self.write(tile)

    def check(self, task, op, where=...) -> None:
        """Refuse to read an element (of those at the numpy index `where`) that nobody has written or whose data are still
        on their way."""
        if not task.machine.check_unwritten or (self.marks[where] == WRITTEN).all():
            return
        index = tuple(int(i) for i in np.argwhere(self.marks[where] != WRITTEN)[0])
        if where is not ...:
            index = tuple(int(along[index]) for along in where)
        element = self.marks[tuple(slice(i, i + 1) for i in index)]
        for copy in self.allocation.coming:
            if np.shares_memory(element, copy.destination.marks):
                raise fail(CopyReadEarly, task, op, f"{op.name} reads {self.name}, element {index}, before the "
                           f"{copy.kind} that {copy.task.where} started at {copy.op.site} has landed", copy.op.site,
                           hint=f"it lands by {copy.lands_by}: wait for that first")
        raise fail(UnwrittenRead, task, op, f"{op.name} reads {self.name}, element {index}, which nobody has written",
                   hint="store or load into it, and order that before this read")


def allocate(name: str, type_, site) -> View:
    """A fresh buffer or array of buffers."""
    dtype = numpy_type(type_.element, site)
    shape = (type_.count, *type_.shape) if type_.count else tuple(type_.shape)
    size = int(np.prod(shape)) * dtype.itemsize
    data = np.full(size, 0xFF, np.uint8).view(dtype).reshape(shape)
    marks = np.zeros(size, np.uint8).view(f"i{dtype.itemsize}").reshape(shape)
    return View(Allocation(name), data, marks)


@dataclass(frozen=True, eq=False)
class Storage:
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


@handles("alias_storage")
def alias_storage(task, op):
    size = op.attrs["bytes"]
    task.env[op.result] = Storage(np.full(size, 0xFF, np.uint8), np.zeros(size, np.uint8))


@handles("local_alloc")
def local_alloc(task, op):
    name, place = op.result.name or f"buffer of line {op.site.line}", op.attrs.get("place")
    view = allocate(name, op.result.type, op.site) if place is None else task.env[op.args[1]].array(
        name, op.result.type, place, op.site)
    if len(task.cta.cluster.ctas) > 1:
        view.allocation.home = f" of CTA {task.cta.index}"
    task.env[op.result] = task.cta.memory[op.result] = view


@handles("buffer_index")
def buffer_index(task, op):
    view, index = task.env[op.args[0]], position(task, op, op.args[1])
    if not 0 <= index < view.count:
        raise fail(OutOfBounds, task, op, f"index {index} of {view.name}, which has {view.count}")
    select = slice(index, index + 1) if view.data.ndim == 1 else index
    task.env[op.result] = view.part(select if view.group_size == 1 else divmod(index, view.group_size), f"[{index}]")


@handles("buffer_slice")
def buffer_slice(task, op):
    view, shape = task.env[op.args[0]], op.args[2]
    offsets = [position(task, op, offset) for offset in op.args[1]]
    for axis, (offset, size, extent) in enumerate(zip(offsets, shape, view.data.shape)):
        if offset < 0 or offset + size > extent:
            raise fail(OutOfBounds, task, op, f"elements {offset} to {offset + size} along axis {axis} of {view.name}, "
                       f"which has {extent} there")
    box = tuple(slice(offset, offset + size) for offset, size in zip(offsets, shape))
    text = ", ".join(f"{offset}:{offset + size}" for offset, size in zip(offsets, shape))
    task.env[op.result] = view.part(box, f"[{text}]")


@handles("buffer_trans")
def buffer_trans(task, op):
    task.env[op.result] = task.env[op.args[0]].trans(op.args[1])


@handles("buffer_reinterpret")
def buffer_reinterpret(task, op):
    view, type_ = task.env[op.args[0]], op.args[1]
    found = view.seen_as(type_, op.site)
    if found is None:
        raise fail(SimulatorMisuse, task, op, f"{view.name} as {type_}: its bytes do not follow each other",
                   hint="reinterpret the buffer first, slice or transpose then")
    task.env[op.result] = found


@handles("local_load", switches=True)
def local_load(task, op):
    view = task.env[op.args[0]]
    if len(op.args) < 3:
        view.touch(task, op, write=False)
        task.env[op.result] = view.read(task, op)
        return
    where = np.nonzero(task.read(op.args[2], op))
    view.touch(task, op, write=False, where=where)
    task.env[op.result] = view.read(task, op, where)


@handles("local_store", switches=True)
def local_store(task, op):
    view, tile = task.env[op.args[0]], task.read(op.args[1], op)
    if len(op.args) < 3:
        view.touch(task, op, write=True)
        view.write(tile)
        return
    where = np.nonzero(task.read(op.args[2], op))
    view.touch(task, op, write=True, where=where)
    view.data[where] = tile[where]
    view.marks[where] = WRITTEN


@handles("local_gather", switches=True)
def local_gather(task, op):
    view, indices, axis = task.env[op.args[0]], task.read(op.args[1], op), op.args[2]
    where = _picked(task, op, view, indices, axis)
    found = view.data[where]
    if len(op.args) > 4:
        on = task.read(op.args[4], op)
        found, where = np.where(on, found, np.zeros_like(found)), tuple(index[on] for index in where)
    view.touch(task, op, write=False, where=where)
    view.check(task, op, where)
    task.env[op.result] = found


@handles("local_scatter", switches=True)
def local_scatter(task, op):
    """Of equal indices the last one in row-major order wins here; on hardware any."""
    view, tile, indices = task.env[op.args[0]], task.read(op.args[1], op), task.read(op.args[2], op)
    where = _picked(task, op, view, indices, op.args[3])
    view.touch(task, op, write=True, where=where)
    view.data[where] = tile
    view.marks[where] = WRITTEN


def _picked(task, op, view: View, indices: np.ndarray, axis: int) -> tuple[np.ndarray, ...]:
    """The numpy index of the elements that `indices` along `axis` pick."""
    outside = (indices < 0) | (indices >= view.data.shape[axis])
    if outside.any():
        at = tuple(int(i) for i in np.argwhere(outside)[0])
        raise fail(OutOfBounds, task, op, f"{op.name}: index {indices[at]} at {at} is outside the {view.data.shape[axis]} elements "
                   f"of {view.name} along axis {axis}", hint="mask or clamp the indices")
    where = list(np.ogrid[tuple(slice(0, extent) for extent in indices.shape)])
    where[axis] = indices
    return tuple(np.broadcast_arrays(*where))


def position(task, op, index) -> int:
    """An index or offset that is a Python integer or an i32 value."""
    return int(task.read(index, op)) if hasattr(index, "type") else int(index)
