"""Loads, stores and atomics through pointers into shared memory, as ops on buffers.

Input: an op, and what is known of its pointers. Output: ops on the buffer, written by a `Builder`. For example:

    tl.load(local_ptr(tile))                        local_load of a view of the buffer
    tl.load(local_ptr(tile, [rows, columns]))       local_gather from the flat buffer

Where the pointers are a box of the buffer, in its order, a view of the buffer is read or written whole: in wide pieces,
and in the form that a dot takes directly. Any other access takes single elements of the flat buffer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod

from ...errors import KernelError
from ...ir import I32, Buffer, Builder, Op, Scalar, Site, Tensor, Type, Value
from ...ir.types import element_of
from ..analysis.affine import Affine
from ..analysis.boxes import Box, pointed_box
from ..analysis.mask_runs import mask_run
from ..analysis.pointers import Family
from ..analysis.uses import Uses


@dataclass(frozen=True)
class Rewrites:
    """Functions that rewrite ops through pointers: loads, stores, and the two atomic ops that return the old value."""

    load: Callable[[Accesses, Op], None]
    store: Callable[[Accesses, Op], None]
    rmw: Callable[[Accesses, Op], None]
    cas: Callable[[Accesses, Op], None]

    def of(self, op: Op) -> Callable[[Accesses, Op], None] | None:
        """The function that rewrites an op; None for an op that is no such access. A poll of shared memory is none: it has no
        form for buffers."""
        access = dict(op.row.touches).get("pointer") if not op.row.copy and op.row.blocks != "poll" else None
        if access == "read":
            return self.load
        if access != "write":
            return None
        return self.store if not op.results else self.rmw if op.name == "atomic_rmw" else self.cas


class Accesses:
    """The state of a rewrite: the writer of ops, and the facts about pointers. With `masked_views` a masked store of a whole
    buffer stays one op, since the target can do it. `odd` collects the arrays that are accessed flat but have a number of
    buffers that is no power of two, which Triton's memory descriptors cannot express."""

    def __init__(self, writer: Builder, uses: Uses, families: dict[Value, Family], masked_views: bool):
        self.masked_views = masked_views
        self.writer, self.uses, self.families = writer, uses, families
        self.odd: set[Value] = set()

    # ---- where ------------------------------------------------------------------------------------------------------

    def view(self, op: Op, pointer: Value, element: Scalar) -> Value | None:
        """The part of the buffer that a tile of pointers is, as a buffer of the same elements in the same order."""
        family = self.families[pointer]
        box = pointed_box(self.uses, pointer, family)
        return None if box is None else self.seen_as(op, self.boxed(family.buffer, box, op), element)

    def is_whole(self, pointer: Value) -> bool:
        """True if the pointers are all elements of one buffer that is no part of another, and its masked stores stay whole."""
        family = self.families[pointer]
        stored, view = family.buffer.type, self.uses.definition.get(family.buffer)
        box = pointed_box(self.uses, pointer, family) if self.masked_views else None
        partial = view is not None and view.row.view in ("part", "retyped")
        return box is not None and box.shape == stored.shape and not partial

    def boxed(self, buffer: Value, box: Box, op: Op) -> Value:
        buffer = self.writer.now(buffer)
        if box.index is not None:
            buffer = self.writer.emit("buffer_index", (buffer, _scalar(self.writer, box.index, op.site)), op.site)
        if buffer.type.shape != box.shape:
            offsets = tuple(_scalar(self.writer, start, op.site) if start.terms else start.constant for start in box.offsets)
            buffer = self.writer.emit("buffer_slice", (buffer, offsets, box.shape), op.site)
        return buffer

    def flat(self, op: Op, pointer: Value, element: Scalar) -> tuple[Value, Value]:
        """The flat buffer, and the positions that pointers have in it: a tile of rank 1."""
        family = self.families[pointer]
        position = self.writer.now(pointer)
        extent = prod(position.type.shape) if isinstance(position.type, Tensor) else 1
        position = self.writer.reshaped(position, (extent, ), op.site)
        buffer, position = self._whole(family.buffer, self.stored(position, family, family.buffer.type, op), op)
        if buffer.type.count & (buffer.type.count - 1):
            self.odd.add(buffer)
        return self.writer.emit("buffer_flat", (self.seen_as(op, self.writer.now(buffer), element), ), op.site), position

    def stored(self, position: Value, family: Family, stored: Buffer, op: Op) -> Value:
        """A position in the logical array as one in the padded array that holds it."""
        have = (stored.count, *stored.shape) if stored.count else stored.shape
        if not family.shape or family.shape[1:] == have[1:]:
            return position
        return self._linear(self._coordinates(position, family.shape, op), have, op)

    def _whole(self, buffer: Value, position: Value, op: Op) -> tuple[Value, Value]:
        """The buffer that a slice or transpose is a view of, and a position in the view as one in that buffer."""
        view = self.uses.definition.get(buffer)
        if view is None or view.row.view not in ("part", "transposed"):
            return buffer, position
        indices, source = self._coordinates(position, buffer.type.shape, op), view.buffer
        if view.row.view == "transposed":
            indices = [indices[view.order.index(dim)] for dim in range(len(indices))]
        else:
            indices = [self._shifted(index, start, op) for index, start in zip(indices, view.offsets)]
        return self._whole(source, self._linear(indices, source.type.shape, op), op)

    def _shifted(self, index: Value, start: Value | int, op: Op) -> Value:
        if not isinstance(start, Value):
            return self.writer.by_constant("add", index, start, op.site) if start else index
        start = self.writer.emit("splat", (index.type, self.writer.now(start)), op.site)
        return self.writer.emit("add", (index, start), op.site)

    def _coordinates(self, position: Value, shape: tuple[int, ...], op: Op) -> list[Value]:
        """The index in each dimension of elements at row-major positions."""
        indices = []
        for dim in range(len(shape)):
            below = prod(shape[dim + 1:])
            indices.append(position if below == 1 else self.writer.by_constant("udiv", position, below, op.site))
            position = self.writer.by_constant("urem", position, below, op.site) if below > 1 else position
        return indices

    def _linear(self, indices: list[Value], shape: tuple[int, ...], op: Op) -> Value:
        total = None
        for dim, index in enumerate(indices):
            term = self.writer.scaled(index, prod(shape[dim + 1:]), op.site)
            total = term if total is None else self.writer.emit("add", (total, term), op.site)
        return total

    def seen_as(self, op: Op, buffer: Value, element: Scalar) -> Value:
        if buffer.type.element == element:
            return buffer
        if buffer.type.element.bits != element.bits:
            raise KernelError(f"{op.name} takes {element} through a pointer into a buffer of {buffer.type.element}.", op.site,
                              hint="the elements of a pointer that was cast must be as wide as those of the buffer.")
        return self.writer.emit("buffer_reinterpret", (buffer, replace(buffer.type, element=element)), op.site, layout=None)

    # ---- what -------------------------------------------------------------------------------------------------------

    def row(self, value: Value, op: Op) -> Value:
        """A value of the old program as a tile of rank 1."""
        value = self.writer.now(value)
        extent = prod(value.type.shape) if isinstance(value.type, Tensor) else 1
        return self.writer.reshaped(value, (extent, ), op.site)

    def give(self, op: Op, row: Value) -> None:
        """The result of `op` is this tile, in its own shape."""
        shape = op.result.type.shape if isinstance(op.result.type, Tensor) else ()
        self.writer.env[op.result] = self.writer.reshaped(row, shape, op.site)


def optional(op: Op, operand: str) -> Value | None:
    """An operand that some rows of accesses have, and others do not."""
    return getattr(op, operand) if operand in op.row.places else None


def _load(accesses: Accesses, op: Op) -> None:
    pointer, writer = op.pointer, accesses.writer
    mask, other = optional(op, "mask"), optional(op, "other")
    element = element_of(op.result.type)
    view = accesses.view(op, pointer, element)
    if view is not None:
        on = () if mask is None else (writer.reshaped(writer.now(mask), view.type.shape, op.site), )
        loaded = writer.emit("local_load", (view, None, *on), op.site, label=op.result.name)
        loaded = writer.reshaped(loaded, op.result.type.shape, op.site)
        if mask is not None:
            loaded = writer.emit("select", (writer.now(mask), loaded, _filler(writer, other, loaded.type, op)), op.site)
        writer.env[op.result] = loaded
        return
    flat, position = accesses.flat(op, pointer, element)
    if mask is not None:
        mask = accesses.row(mask, op)
        position = writer.emit("select", (mask, position, writer.constant(0, position.type, op.site)), op.site)
    row = writer.emit("local_gather", (flat, position, 0, None) if mask is None else (flat, position, 0, None, mask), op.site)
    if mask is not None:
        other = None if other is None else accesses.row(other, op)
        row = writer.emit("select", (mask, row, _filler(writer, other, row.type, op)), op.site)
    accesses.give(op, row)


def _scalar(writer: Builder, form: Affine, site: Site) -> Value:
    """The i32 value of a scalar's affine form, over values of the old program."""
    total = writer.constant(form.constant, I32, site) if form.constant or not form.terms else None
    for value, factor in form.terms:
        term = writer.scaled(writer.cast_i32(writer.now(value), site), factor, site)
        total = term if total is None else writer.emit("add", (total, term), site)
    return total


def _filler(writer: Builder, other: Value | None, type_: Type, op: Op) -> Value:
    return writer.constant(0.0 if element_of(type_).is_float else 0, type_, op.site) if other is None else writer.now(other)


def _store(accesses: Accesses, op: Op) -> None:
    pointer, value, writer, mask = op.pointer, op.value, accesses.writer, optional(op, "mask")
    element = element_of(value.type)
    view = accesses.view(op, pointer, element) if mask is None or accesses.is_whole(pointer) else None
    if view is not None and mask is None:
        writer.emit("local_store", (view, writer.reshaped(writer.now(value), view.type.shape, op.site)), op.site)
        return
    if view is not None:
        tiles = (writer.reshaped(writer.now(tile), view.type.shape, op.site) for tile in (value, mask))
        run = mask_run(accesses.uses, mask) if mask.type.shape[-1] == view.type.shape[-1] else 1
        writer.emit("local_store", (view, *tiles), op.site, run=run)
        return
    flat, position = accesses.flat(op, pointer, element)
    if mask is None:
        writer.emit("local_scatter", (flat, accesses.row(value, op), position, 0, None), op.site)
    else:
        writer.emit("local_masked_scatter", (flat, accesses.row(value, op), position, accesses.row(mask, op)), op.site)


def _rmw(accesses: Accesses, op: Op) -> None:
    flat, position = accesses.flat(op, op.pointer, element_of(op.value.type))
    row = None if op.mask is None else accesses.row(op.mask, op)
    accesses.give(op, accesses.writer.emit("local_atomic_rmw", (op.kind, flat, accesses.row(op.value, op), position, row), op.site))


def _cas(accesses: Accesses, op: Op) -> None:
    flat, position = accesses.flat(op, op.pointer, element_of(op.value.type))
    args = (flat, accesses.row(op.compare, op), accesses.row(op.value, op), position)
    accesses.give(op, accesses.writer.emit("local_atomic_cas", args, op.site))


ACCESSES = Rewrites(_load, _store, _rmw, _cas)
