"""Accesses by threads of a buffer that consists of pieces.

Input: a `local_store` or `local_load` with the attribute `pieces`, of a tile of which idle elements go nowhere. Output: as many
stores or loads, each of one piece:

    local_store %c pieces=(64, 176, 1), %x : fp16[64, 256]      11 stores of 64 x 16; what is idle, 80 columns, is never stored
    local_load %b pieces=(176, 64, 11) : fp16[256, 64]          11 loads of 16 x 64

The tile is cut in halves again and again (`reshape`, `trans`, `split`), or joined so. `constraints.pieces` has chosen a layout in
which each half of a cut has registers of its own, so no element changes its thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ....ir import I32, I64, Buffer, Op, Tensor
from ....ir.byte_maps import byte_map
from ....ir.layouts import Mma, RegisterLayout
from ....ir.linear import linear_of
from ....ir.pieces import Cut, cut_of, part_of
from ..asm import sync
from ..emitter import Emitter, Placement
from ..nvidia.masked_store import registers_and_flags, store_where


@dataclass(frozen=True)
class Array:
    """The MLIR values of an array of pieces, and of the number of a buffer's first; the type and the placement of one piece."""

    pieces: object
    first: object
    piece: Buffer
    placement: Placement


@dataclass(frozen=True)
class Part:
    """A part of a tile: where it begins, and its extents."""

    row: int
    column: int
    rows: int
    columns: int

    def halves(self, dim: int) -> tuple[Part, Part]:
        if dim:
            half = self.columns // 2
            return replace(self, columns=half), replace(self, column=self.column + half, columns=half)
        half = self.rows // 2
        return replace(self, rows=half), replace(self, row=self.row + half, rows=half)


def first(emitter: Emitter, op: Op):
    """The view of the first piece; it is placed as the tile that it is a part of."""
    placement, piece = emitter.placed[op.buffer], op.result.type
    array = Array(emitter.of(op.buffer), emitter.of(op.index), piece, Placement(placement.layout, piece.shape))
    emitter.arrays[op.result] = array
    emitter.placed[op.result] = Placement(placement.layout, op.attrs["around"])
    return _piece(emitter, array, array.first)


def store(emitter: Emitter, op: Op) -> None:
    """Store a tile. A trial lowering stores without the mask, as `local_mem` does."""
    if op.mask is None or emitter.trial:
        put(emitter, op, emitter.operand(op, "value"), op.value.type.shape, emitter.wanted(op, "value"))
    else:
        _store_where(emitter, op, op.value.type.shape)


def _store_where(emitter: Emitter, op: Op, shape: tuple[int, int]) -> None:
    """Store each piece where its part of the mask is true."""
    cut, linear = cut_of(op, shape), linear_of(emitter.wanted(op, "value"), shape)
    piece, size = emitter.arrays[op.buffer].piece, op.value.type.element.bytes
    images = byte_map(emitter.placed[op.buffer].layout, piece)[(size - 1).bit_length():]
    tiles, own = registers_and_flags(emitter, op), part_of(linear, piece.shape)
    sync(emitter)
    for (part, bits), (_, flags) in zip(*(_cut(emitter, tile, Part(0, 0, *shape), cut) for tile in tiles)):
        held = (emitter.builder.create_convert_layout(emitter.types.tensor(Tensor(element, piece.shape), own), tile)
                for element, tile in ((I64 if size == 8 else I32, bits), (I32, flags)))
        store_where(emitter, op, _view(emitter, op, part), images, own, *held)
    sync(emitter)


def put(emitter: Emitter, op: Op, tile, shape: tuple[int, int], layout: RegisterLayout) -> None:
    """Store the MLIR value of a tile of that shape and layout into the buffer of an op."""
    for part, value in _cut(emitter, tile, Part(0, 0, *shape), cut_of(op, shape)):
        emitter.builder.create_local_store(_view(emitter, op, part), _in_columns(emitter, op, value, part, layout))


def load(emitter: Emitter, op: Op):
    shape, layout = op.result.type.shape, emitter.layouts.registers[op.result]
    joined = _joined(emitter, op, Part(0, 0, *shape), cut_of(op, shape), linear_of(layout, shape))
    return emitter.builder.create_convert_layout(emitter.mlir_type(op.result), joined)


def _cut(emitter: Emitter, value, part: Part, cut: Cut) -> Iterator[tuple[Part, object]]:
    """The parts that the author's tile has elements of, and the values of these."""
    dim = _cuts(part, cut)
    if dim is None:
        yield part, value
        return
    builder = emitter.builder
    shape, order = (([part.rows, 2, part.columns // 2], [0, 2, 1]) if dim else ([2, part.rows // 2, part.columns], [1, 2, 0]))
    halves = builder.create_split(builder.create_trans(builder.create_reshape(value, shape, False), order))
    for half, values in zip(part.halves(dim), halves):
        if _is_inside(half, cut):
            yield from _cut(emitter, values, half, cut)


def _joined(emitter: Emitter, op: Op, part: Part, cut: Cut, linear):
    """The value of a part. A half that is idle is the other one again."""
    builder, dim = emitter.builder, _cuts(part, cut)
    if dim is None:
        shape = part.rows, part.columns
        type_ = emitter.types.tensor(Tensor(op.result.type.element, shape), part_of(linear, shape))
        return builder.create_local_load(type_, _view(emitter, op, part))
    inside = [_joined(emitter, op, half, cut, linear) for half in part.halves(dim) if _is_inside(half, cut)]
    pairs = builder.create_join(inside[0], inside[-1])
    return builder.create_reshape(builder.create_trans(pairs, [0, 2, 1] if dim else [2, 0, 1]), [part.rows, part.columns], False)


def _cuts(part: Part, cut: Cut) -> int | None:
    """The dimension along which a part is cut next; None of a piece."""
    return next((dim for dim, extent in ((1, part.columns), (0, part.rows)) if extent > cut.piece[dim]), None)


def _is_inside(part: Part, cut: Cut) -> bool:
    return part.row < cut.rows and part.column < cut.columns


def _view(emitter: Emitter, op: Op, part: Part):
    """The piece that a part is."""
    array, builder = emitter.arrays[op.buffer], emitter.builder
    *_, of_stripe = op.attrs["pieces"]
    number = part.column // part.columns * of_stripe + part.row // part.rows
    return _piece(emitter, array, builder.create_add(array.first, builder.get_int32(number)) if number else array.first)


def _piece(emitter: Emitter, array: Array, number):
    return emitter.builder.create_memdesc_index(emitter.types.view(array.piece, array.placement), array.pieces, number)


def _in_columns(emitter: Emitter, op: Op, value, part: Part, layout: RegisterLayout):
    """The part in the layout of a tensor core's sums that is as wide; in any other layout as it is."""
    if not isinstance(layout, Mma) or part.columns < 8:
        return value
    rows, _, depth = layout.instruction
    type_ = Tensor(op.buffer.type.element, (part.rows, part.columns))
    narrow = emitter.types.tensor(type_, replace(layout, instruction=(rows, part.columns, depth)))
    return emitter.builder.create_convert_layout(narrow, value)
