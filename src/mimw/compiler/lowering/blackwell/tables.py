"""Tables of scales in tensor memory: their columns, and the way to registers, for which Triton has no op.

Input: an op on a buffer that holds scales. Output: Triton's ops on the same columns as a tile of bytes:

    %x = tmem_load %table[128, 8]     ttng.tmem_load of u8[128 lanes, 32]; reshape, trans, split

A column of 32 bits holds 4 scales of a row, for 32 rows, one a lane; all four warps have the same lanes (PTX ISA, "Scale factor
layouts"). So the tile of bytes is four times as large as the table, and one copy of the four is kept.
"""

from __future__ import annotations

from dataclasses import replace

from ....ir import Op, Tensor
from ....ir.layouts import Blocked, TensorMemory
from ....ir.tensor_memory import COLUMN_BYTES, LANES, columns_of, layout_of, row_groups, tile_of
from ....ir.types import I32, Scalar
from ..emitter import Emitter, Placement
from .descriptors import memory_type, part

_ROWS = 32      # of a table in one column
_BYTE = Scalar("fp8e5")


def table(emitter: Emitter, op: Op):
    """The table in registers, in whatever layout Triton infers."""
    builder, type_, (rows, columns) = emitter.builder, op.buffer.type, op.buffer.type.shape
    across = COLUMN_BYTES * columns_of(type_)
    lanes = replace(type_, element=type_.element, shape=(LANES, across))
    placed = Placement(TensorMemory(LANES, across), lanes.shape)
    tile = _tile(lanes, emitter.num_warps)
    bytes_ = builder.create_memdesc_reinterpret(memory_type(emitter, type_.element, lanes.shape, placed), emitter.of(op.buffer))
    loaded = builder.create_tmem_load(emitter.types.tensor(Tensor(type_.element, lanes.shape), tile), bytes_)
    kept, groups = min(columns, COLUMN_BYTES), row_groups(rows)
    # (warp, lane; columns, rows that are none, rows, byte of no column, byte): the first warp's, and what is some, is kept.
    seen = [LANES // _ROWS, _ROWS, -(-columns // COLUMN_BYTES), groups * _ROWS // rows, rows // _ROWS, COLUMN_BYTES // kept, kept]
    loaded = builder.create_reshape(loaded, seen, False)
    copies = seen[0] * seen[3] * seen[5]
    shape = (rows, columns, *(2, ) * (copies.bit_length() - 1))
    loaded = builder.create_reshape(builder.create_trans(loaded, [4, 1, 2, 6, 3, 5, 0]), list(shape), False)
    loaded = builder.create_convert_layout(emitter.types.tensor(Tensor(type_.element, shape), _whole(shape, emitter)), loaded)
    for _ in shape[2:]:
        loaded, _ = builder.create_split(loaded)
    return loaded


def _tile(lanes, num_warps: int):
    """The register layout of a tile of bytes: that of a tile of fp8 values, which are no scales."""
    return tile_of(replace(lanes, element=_BYTE), num_warps)


def _whole(shape: tuple[int, ...], emitter: Emitter) -> Blocked:
    """Rows over lanes and warps; a thread has all copies."""
    rank = len(shape)
    rest = (1, ) * (rank - 1)
    return Blocked((1, 1, *shape[2:]), (emitter.target.warp_size, *rest), (emitter.num_warps, *rest), tuple(reversed(range(rank))))


def table_slice(emitter: Emitter, op: Op):
    """Some columns of a table, which are whole columns of tensor memory."""
    type_, had = op.result.type, op.buffer.type
    total, first = columns_of(had), op.offsets[1] // COLUMN_BYTES * row_groups(type_.shape[0])
    emitter.placed[op.result] = Placement(layout_of(type_), type_.shape)
    placed = Placement(TensorMemory(LANES, total), (LANES, total))
    whole = emitter.builder.create_memdesc_reinterpret(memory_type(emitter, I32, placed.allocated, placed), emitter.of(op.buffer))
    return part(emitter, whole, first, columns_of(type_), type_, total)
