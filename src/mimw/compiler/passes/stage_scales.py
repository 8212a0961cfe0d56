"""Scales of a block-scaled product that lie in shared memory are copied to tensor memory before the product.

Input: a program. Output: the program with a table in tensor memory for each such operand, at the start of the kernel, and a copy
before each product; the same object if all scales are in tensor memory. For example:

    tcgen05_mma_scaled %a %b %acc %sa %sb ...            tmem_copy %sa %table;
                                             becomes     tcgen05_mma_scaled %a %b %acc %table %sb ...

The tensor cores read scales from tensor memory only (PTX ISA, tcgen05.mma, "Block scaling"). One table is enough for all products
of a task with scales of one shape: copies and products of a task go through one queue, in order, so a copy overwrites no scales
that an earlier product is still to read. The columns count in the sum of all (`place_tensor_memory`).
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from types import MappingProxyType

from ...ir import Block, Buffer, Op, Program, Value
from ...ir.types import I32, Scalar

_TABLES = ("a_scale", "b_scale")
_BLOCK_ROWS = 128       # of packed scales
_TABLE = Scalar("i8")


def stage_scales(program: Program) -> Program:
    """The program with those tables and copies."""
    if not program.where(lambda row: "scaled" in row.traits):
        return program
    made: list[Op] = []
    body = _block(program.body, {}, made)
    return replace(program, body=replace(body, ops=(*made, *body.ops))) if made else program


def _block(block: Block, tables: dict[tuple, Value], made: list[Op]) -> Block:
    """The block of a task whose `tables` are known so far; `made` gets the ops that make more."""
    ops: list[Op] = []
    for op in block.ops:
        if "scaled" in op.row.traits:
            for name in _TABLES:
                source = getattr(op, name)
                if source.type.space == "smem":
                    table = tables.get((name, source.type.shape)) or _table(op, source, made)
                    tables[name, source.type.shape] = table
                    ops.append(_copy(op, source, table))
                    op = op.with_operands(**{name: _read(op, table, ops)})
        elif op.blocks:
            starts = op.name == "warp_specialize"
            op = op.with_blocks(lambda inner: _block(inner, {} if starts else tables, made))
        ops.append(op)
    return block.with_ops(ops)


def _table(op: Op, source: Value, made: list[Op]) -> Value:
    """One buffer of tensor memory with as many scales as the packed ones."""
    rows = source_rows(source.type)
    array = Value(Buffer(_TABLE, (rows, prod(source.type.shape) // rows), 1, "tmem"), f"{source.name or 'scales'}_copied")
    number, one = Value(I32), Value(array.type.single(), array.name)
    made += (Op("local_alloc", (array.type, None), (array, ), site=op.site),
             Op("constant", (0, I32), (number, ), site=op.site),
             Op("buffer_index", (array, number), (one, ), site=op.site))
    return one


def _read(op: Op, table: Value, ops: list[Op]) -> Value:
    """The columns of the table that the product has scales for: all but what fills up a block of 4 columns."""
    rows, columns = table.type.shape
    fp4 = op.a_format == op.b_format == "e2m1"
    k = op.a.type.shape[1] * (1 + (op.a_format == "e2m1"))
    wanted = k // 16 if fp4 and columns == k // 16 else k // 32 if columns >= k // 32 else columns
    if wanted == columns:
        return table
    part = Value(Buffer(_TABLE, (rows, wanted), 0, "tmem"), table.name)
    ops.append(Op("buffer_slice", (table, (0, 0), (rows, wanted)), (part, ), site=op.site))
    return part


def source_rows(type_: Buffer) -> int:
    """The rows of the table that a packed buffer holds."""
    shape = type_.shape
    return _BLOCK_ROWS * (shape[1] if len(shape) == 5 and shape[-1] == 256 else shape[0])


def _copy(op: Op, source: Value, table: Value) -> Op:
    """The copy, under the predicate of the product: scales that are not multiplied are not read either. In both CTAs of a
    product's pair."""
    attrs = MappingProxyType({"of_dot": True})
    if "pairs" in op.row.traits:
        return Op("tmem_copy_pair", (source, table, op.predicate, op.peer), attrs=attrs, site=op.site)
    return Op("tmem_copy", (source, table, op.predicate), attrs=attrs, site=op.site)
