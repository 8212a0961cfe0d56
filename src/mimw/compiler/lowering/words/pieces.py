"""Stores of tiles into the pieces of a buffer: stripes of its columns, and rows of these, each a buffer of its own.

Input: a `local_store` with the attribute `pieces`, how many lie below and beside each other, of a tile of which what is idle goes
nowhere. Output: as many stores, each of one piece:

    local_store %c pieces=(1, 11), %x : fp16[64, 256]       11 stores of 16 columns; what is idle, 80 columns, is never stored
    local_store %c pieces=(5, 1), %x : fp32[256, 32]        5 stores of 32 rows

The tile is cut in halves again and again (`reshape`, `trans`, `split`). In the layout of a tensor core's sums the columns of a
thread lie in its registers by powers of two, so no element changes its thread.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ....errors import KernelError
from ....ir import Op, Tensor, Value
from ....ir.layouts import Blocked, Mma
from ..emitter import Emitter


@dataclass(frozen=True)
class Array:
    """The MLIR values of an array of pieces, and of the number of the first piece of a buffer."""

    pieces: object
    first: object


def store(emitter: Emitter, op: Op) -> None:
    down, across = op.attrs["pieces"]
    height, width = op.buffer.type.shape
    for row, rows in enumerate(_cut(emitter, _cuttable(emitter, op), op.value.type.shape, height, down, 0)):
        shape = (height, op.value.type.shape[1])
        for column, part in enumerate(_cut(emitter, rows, shape, width, across, 1)):
            piece = _piece(emitter, op.buffer, column * down + row)
            emitter.builder.create_local_store(piece, _in_columns(emitter, op, part, width))


def _cuttable(emitter: Emitter, op: Op):
    """The value, in registers from one piece to the next: if it lies over the threads by blocks, these tile one piece."""
    layout = emitter.wanted(op, "value")
    if not isinstance(layout, Blocked):
        return emitter.operand(op, "value")
    (height, width), lanes, warps = op.buffer.type.shape, emitter.target.warp_size, emitter.num_warps
    each = max(1, min(width, height * width // (lanes * warps)))
    beside = min(lanes, width // each)
    below = max(1, min(warps, height * beside // lanes))
    if lanes // beside * below > height or each * beside * (warps // below) > width:
        raise KernelError(f"local_store of {op.value.type} by {warps} warps: the tile is stored in pieces of {height} x {width}, "
                          "of fewer elements than there are threads.", op.site, hint="store it by a task of fewer warps.")
    whole = Blocked((1, each), (lanes // beside, beside), (below, warps // below), (1, 0))
    return emitter.converted(emitter.operand(op, "value"), op.value.type, layout, whole)


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


def _cut(emitter: Emitter, value, shape: tuple[int, int], size: int, count: int, axis: int) -> list:
    """The first `count` parts, each of `size` rows (axis 0) or columns (axis 1), of a tile."""
    if shape[axis] == size:
        return [value]
    builder, half = emitter.builder, shape[axis] // 2
    apart, order = ([2, half, shape[1]], [1, 2, 0]) if axis == 0 else ([shape[0], 2, half], [0, 2, 1])
    left, right = builder.create_split(builder.create_trans(builder.create_reshape(value, apart, False), order))
    inside, halved = half // size, (half, shape[1]) if axis == 0 else (shape[0], half)
    return (_cut(emitter, left, halved, size, min(count, inside), axis)
            + (_cut(emitter, right, halved, size, count - inside, axis) if count > inside else []))
