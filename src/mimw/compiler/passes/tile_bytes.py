"""Arrays of bytes in tensor memory that are tiles lie as tiles; the others are tables of block scales.

Input: a program. Output: the program with an 8-bit float in the place of the integers of each such array, so that the array lies as
a tile does, and a `bitcast` at each load and store; the same object if there is no such array. For example:

    tmem_store %a0 %v; tcgen05_mma_scaled %a0 %b %acc ... 'e2m1'     becomes     %w = bitcast %v; tmem_store %a0 %w; ...

Bytes of both kinds are one type to the author. A tile is what a product takes as operand A, what has a view of another type, and
what a copy of 32 rows for each warp writes; a table has 32 rows side by side in its columns (PTX ISA, "Scale factor layouts").
"""

from __future__ import annotations

from dataclasses import replace

from ...errors import KernelError
from ...ir import Block, Buffer, Builder, Op, Program, Scalar, Tensor, Value
from ...ir.flow import all_carries
from ...ir.tensor_memory import holds_scales, is_repeated

_SPACE = "tmem"
_STAND_IN = Scalar("fp8e5")
_SCALES = ("a_scale", "b_scale")


def tile_bytes(program: Program) -> Program:
    """The program with those arrays. KernelError for an array that is a tile at one place and scales at another, and for a tile
    that an `if` or a loop passes on."""
    arrays = _arrays(program)
    if not arrays:
        return program
    tiles: dict[Value, Op] = {}
    for op in program.walk():
        for value in _tiles_of(op):
            if value in arrays:
                tiles.setdefault(arrays[value], op)
    if not tiles:
        return program
    _check(program, arrays, tiles)
    return replace(program, body=_block(program.body, tiles, Builder()))


def _arrays(program: Program) -> dict[Value, Value]:
    """The array to which each buffer of bytes in tensor memory belongs, or of which it is a view."""
    arrays: dict[Value, Value] = {}
    if not any(map(_holds, program.where(lambda row: row.allocates == "buffer"))):
        return arrays
    for op in program.walk():
        if op.row.allocates == "buffer" and _holds(op):
            arrays[op.result] = op.result
        elif op.viewed in arrays:
            arrays[op.result] = arrays[op.viewed]
    # What control flow hands on is looked at to be refused, so one round of it is enough.
    return arrays | {carry.target: arrays[carry.source] for carry in all_carries(program) if carry.source in arrays}


def _holds(op: Op) -> bool:
    return op.result.type.space == _SPACE and holds_scales(op.result.type)


def _tiles_of(op: Op) -> list[Value]:
    """The values that `op` takes for tiles."""
    if "dot" in op.row.traits and "a" in op.row.places:
        return [op.a]
    if op.viewed is not None and not op.row.allocates and isinstance(op.result.type, Buffer):    # an array over another is no view
        return [op.viewed] if op.result.type.element != op.viewed.type.element else []
    return [op.buffer] if _is_repeated(op) else []


def _scales_of(op: Op) -> list[Value]:
    """The values that `op` takes for tables of scales."""
    if {"source", "buffer"} <= op.row.places.keys() and op.buffer.type.space == _SPACE and not _is_repeated(op):
        return [op.buffer]
    return [getattr(op, name) for name in _SCALES if name in op.row.places]


def _is_repeated(op: Op) -> bool:
    return {"source", "buffer"} <= op.row.places.keys() and op.buffer.type.space == _SPACE and is_repeated(
        op.source.type.shape, *op.buffer.type.shape)


def _check(program: Program, arrays: dict[Value, Value], tiles: dict[Value, Op]) -> None:
    for op in program.walk():
        for value in _scales_of(op):
            if (tile := tiles.get(arrays.get(value))) is not None:
                raise KernelError(f"{value.name or 'a buffer'} holds block scales to {op.row.word or op.name}, and its array is a "
                                  f"tile of bytes to {tile.row.word or tile.name}: the two lie differently in tensor memory.",
                                  op.site, tile.site, hint="allocate an array for each; copy scales in their packed form, "
                                  "[r/128, c/4, 32, 16]")
    for carry in all_carries(program):
        if (tile := tiles.get(arrays.get(carry.source))) is not None:
            raise KernelError("an `if` or a loop passes on a tile of bytes in tensor memory.", carry.op.site, tile.site,
                              hint="index its array where the tile is used, or allocate it as an 8-bit float, of which "
                              "tlx.local_reinterpret makes bytes")


def _block(block: Block, tiles: dict[Value, Op], writer: Builder) -> Block:
    outside = writer.open()
    for op in block.ops:
        if op.blocks:
            blocks = tuple(_block(inner, tiles, writer) for inner in op.blocks)
            writer.ops.append(replace(op, args=writer.now(op.args), blocks=blocks))
        elif op.row.allocates == "buffer" and op.result in tiles:
            writer.env[op.result] = made = Value(replace(op.result.type, element=_STAND_IN), op.result.name, op.result.number)
            writer.ops.append(replace(op.with_operands(type=made.type), args=writer.now(op.with_operands(type=made.type).args),
                                      results=(made, )))
        elif op.viewed in writer.env and op.result.type.element == op.viewed.type.element:
            writer.env[op.result] = writer.emit(op.name, writer.now(op.args), op.site, label=op.result.name, **op.attrs)
        elif "buffer" in op.row.places and op.buffer in writer.env and "whole" in op.row.traits:
            stored = writer.emit("bitcast", (op.value, Tensor(_STAND_IN, op.value.type.shape)), op.site)
            writer.copy(op.with_operands(value=stored), op.with_operands(value=stored).args)
        elif "buffer" in op.row.places and op.buffer in writer.env and op.results and isinstance(op.result.type, Tensor):
            loaded = writer.emit(op.name, writer.now(op.args), op.site, **op.attrs)
            writer.emit("bitcast", (loaded, op.result.type), op.site, results=op.results)
        else:
            writer.copy(op, op.args)
    return Block(block.args, writer.close(outside))
