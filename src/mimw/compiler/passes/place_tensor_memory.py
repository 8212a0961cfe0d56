"""Gives every buffer array in tensor memory its columns, in one allocation for the whole kernel.

Input: a program after `place_aliases`. Output: the program with one storage of tensor memory at its start, and the first column of
each array in `place`; or `OutOfTensorMemory` with the sum, an array a line. For example:

    acc = local_alloc((128, 128), fp32, 2, tmem)        place: columns 0 and 128
    p = local_alloc((128, 128), bf16, 1, tmem)          place: column 256; the kernel takes 512 columns

One allocation, since Triton would lay several over each other by the liveness that Triton sees, and a `tcgen05` operation in flight
or another task may use an array for longer. PTX ISA, tcgen05.alloc: a power of two of columns, at least 32.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType

from ...errors import OutOfTensorMemory
from ...ir import Block, Op, Place, Program, Storage, Value
from ...ir.extents import padded
from ...ir.tensor_memory import COLUMNS, SMALLEST, columns_of, lying
from ...target import Target

SPACE = "tmem"


@dataclass(frozen=True)
class Piece:
    """One array with memory of its own, or one storage that arrays share: `columns` of `alignment`."""

    op: Op
    columns: int
    alignment: int


def place_tensor_memory(program: Program, target: Target) -> Program:
    """The program with all places known; the same object if it has no tensor memory."""
    pieces = _pieces(program)
    if not pieces:
        return program
    starts, end = _starts(pieces)
    limit = target.tensor_memory_columns or COLUMNS
    if end > limit:
        raise _too_many(pieces, end, limit)
    total = max(SMALLEST, 1 << (end - 1).bit_length())
    backing = Value(Storage(SPACE), "tensor_memory")
    made = Op("alias_storage", (SPACE, None), (backing, ), site=pieces[0].op.site,
              attrs=MappingProxyType({"bytes": total, "alignment": 1}))
    widths = {piece.op: piece.columns // max(1, getattr(piece.op.result.type, "count", 1)) for piece in pieces}
    body = _placed(program.body, starts, widths, backing, {piece.op.result: starts[piece.op] for piece in pieces})
    return replace(program, body=replace(body, ops=(made, *body.ops)))


def is_backing(op: Op) -> bool:
    """True if the op is the one allocation of tensor memory."""
    return op.row.allocates == "storage" and op.result.type.space == SPACE


def columns_taken(program: Program) -> int:
    """The columns of the one allocation of a program whose places are known; 0 without tensor memory."""
    return next((op.attrs["bytes"] for op in program.walk() if is_backing(op)), 0)


def _pieces(program: Program) -> list[Piece]:
    found = []
    for op in program.walk():
        if op.row.allocates not in ("buffer", "storage") or op.result.type.space != SPACE:
            continue
        if op.row.allocates == "storage":
            if "bytes" in op.attrs:
                found.append(Piece(op, op.attrs["bytes"], op.attrs["alignment"]))
        elif "place" not in op.attrs:
            held = replace(op.result.type, shape=padded(op.result.type.shape))
            one = columns_of(lying(held, program.in_pairs, "doubled" in op.attrs))
            found.append(Piece(op, one * max(1, op.result.type.count), boundary(one)))
    return found


def boundary(columns: int) -> int:
    """The number that divides the first column of a buffer: the largest power of two that divides its width."""
    return columns & -columns


def _starts(pieces: list[Piece]) -> tuple[dict[Op, int], int]:
    """The first column of each piece, those with the coarsest alignment first so that no gaps arise, and the end of the last."""
    starts, end = {}, 0
    for piece in sorted(pieces, key=lambda piece: -piece.alignment):
        starts[piece.op] = -(-end // piece.alignment) * piece.alignment
        end = starts[piece.op] + piece.columns
    return starts, end


def _placed(block: Block, starts: dict[Op, int], widths: dict[Op, int], backing: Value, storages: dict[Value, int]) -> Block:
    ops = []
    for op in block.ops:
        if is_backing(op):
            continue
        if op.row.allocates == "buffer" and op.result.type.space == SPACE:
            place = op.attrs.get("place")
            if place is None:
                one = widths[op]
                place = Place(starts[op], one, one, max(1, op.result.type.count))
            else:
                place = replace(place, offset=place.offset + storages[op.reuse])
            ops.append(op.with_operands(reuse=backing).with_attrs(place=place))
        else:
            ops.append(op.with_blocks(lambda inner: _placed(inner, starts, widths, backing, storages)))
    return block.with_ops(ops)


def _too_many(pieces: list[Piece], end: int, limit: int) -> OutOfTensorMemory:
    rows = [(piece.op.result.name or f"line {piece.op.site.line}", _sum(piece), str(piece.op.site)) for piece in pieces]
    name, size = max(len(row[0]) for row in rows), max(len(row[1]) for row in rows)
    lines = [f"    {row[0]:<{name}}  {row[1]:>{size}} columns  {row[2]}" for row in rows]
    return OutOfTensorMemory(
        f"{end} columns of tensor memory are needed, but a CTA has {limit}: {end - limit} too many.\n" + "\n".join(lines),
        *(piece.op.site for piece in sorted(pieces, key=lambda piece: -piece.columns)[:1]),
        hint="allocate fewer or narrower buffers, or let buffers that are not needed at one time share columns: "
        "local_alloc(..., reuse=).", required=end, limit=limit)


def _sum(piece: Piece) -> str:
    count = max(1, getattr(piece.op.result.type, "count", 1))
    return str(piece.columns) if count == 1 else f"{count} x {piece.columns // count} = {piece.columns}"
