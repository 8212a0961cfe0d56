"""Stores of tiles into the pieces of a buffer: stripes of its columns, each a buffer of its own.

Input: a `local_store` with the attribute `pieces`, of a tile whose idle columns go nowhere. Output: as many stores, each of the
columns of one piece:

    local_store %c pieces=11, %x : fp16[64, 256]        11 stores of 16 columns; what is idle, 80 columns, is never stored

The tile is cut in halves again and again (`reshape`, `trans`, `split`). In the layout of a tensor core's sums the columns of a
thread lie in its registers by powers of two, so no element changes its thread.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ....ir import Op, Tensor, Value
from ....ir.layouts import Mma
from ..emitter import Emitter


@dataclass(frozen=True)
class Array:
    """The MLIR values of an array of pieces, and of the number of the first piece of a buffer."""

    pieces: object
    first: object


def store(emitter: Emitter, op: Op) -> None:
    value, count = op.value, op.attrs["pieces"]
    rows, columns = value.type.shape
    width = op.buffer.type.shape[1]
    parts = _cut(emitter, emitter.operand(op, "value"), rows, columns, width, count)
    for number, part in enumerate(parts):
        emitter.builder.create_local_store(_piece(emitter, op.buffer, number), _in_columns(emitter, op, part, width))


def _piece(emitter: Emitter, buffer: Value, number: int):
    array, builder = emitter.arrays[buffer], emitter.builder
    view = emitter.types.view(buffer.type, emitter.placed[buffer])
    return builder.create_memdesc_index(view, array.pieces, builder.create_add(array.first, builder.get_int32(number)))


def _in_columns(emitter: Emitter, op: Op, part, width: int):
    """The part in the layout of a tensor core's sums that is as wide; in any other layout as it is."""
    layout = emitter.wanted(op, "value")
    if not isinstance(layout, Mma) or width < 8:
        return part
    rows, _, depth = layout.instruction
    type_ = Tensor(op.value.type.element, (op.value.type.shape[0], width))
    narrow = emitter.types.tensor(type_, replace(layout, instruction=(rows, width, depth)))
    return emitter.builder.create_convert_layout(narrow, part)


def _cut(emitter: Emitter, value, rows: int, columns: int, width: int, count: int) -> list:
    """The first `count` parts, each `width` wide, of a tile of `columns`."""
    if columns == width:
        return [value]
    builder, half = emitter.builder, columns // 2
    left, right = builder.create_split(builder.create_trans(builder.create_reshape(value, [rows, 2, half], False), [0, 2, 1]))
    inside = half // width
    return (_cut(emitter, left, rows, half, width, min(count, inside))
            + (_cut(emitter, right, rows, half, width, count - inside) if count > inside else []))
