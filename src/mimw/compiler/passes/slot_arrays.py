"""Buffers that are used slot by slot become arrays of buffers.

Input: a program. Output: the program with such allocations as arrays, or the same object:

    local_alloc buffer<bf16[3, 128, 64]>, indexed along the first dimension       becomes       buffer<bf16[128, 64] x 3>

TLE allocates one array of any rank. Where the program takes slots of it, from three dimensions on, or where its first
extent is no power of two, each slot is a buffer of its own in the IR: it can lie as TMA and the tensor cores want a
tile to lie. So it is where TMA copies slots that are too small to follow each other (`space_slots`).
"""

from __future__ import annotations

from dataclasses import replace

from ...ir import Block, Buffer, Builder, Op, Program, Value
from ...target import SHARED
from ..analysis.affine import affine
from ..analysis.uses import Uses, uses_of
from ..storage.aliases import SMEM_ALIGNMENT
from .space_slots import copied


def slot_arrays(program: Program) -> Program:
    """The program with such allocations as arrays; the same object if there are none."""
    uses = uses_of(program)
    found = {op.result: _array(op.result.type) for op in uses.ops if op.row.allocates == "buffer" and _is_array(op, uses)}
    return with_types(program, found) if found else program


def _array(type_: Buffer) -> Buffer:
    return Buffer(type_.element, type_.shape[1:], type_.shape[0], type_.space)


def with_types(program: Program, types: dict[Value, Buffer]) -> Program:
    """The program with the allocations `types` of these types."""
    return replace(program, body=_block(program.body, types, Builder()))


def _is_array(op: Op, uses: Uses) -> bool:
    type_ = op.result.type
    if type_.space != SHARED or type_.count or len(type_.shape) < 2 or op.attrs.get("layout") is not None:
        return False    # what no shared memory holds has no banks and no rows of a power of two
    users = [use.op for use in uses.of(op.result)]
    if any(user.row.hands_over or _takes_all(user, op.result) for user in users):
        return False
    leading = type_.shape[0]
    if leading & (leading - 1) or len(type_.shape) > 2 and any(_takes_slot(user, uses) for user in users):
        return True
    small = type_.tile_bytes // leading % SMEM_ALIGNMENT != 0
    return small and any(user.name == "buffer_index" and _is_copied(user, uses) for user in users)


def _is_copied(user: Op, uses: Uses) -> bool:
    """True for a view that a TMA copy reads or writes."""
    return any(user.result in copied(use.op) for use in uses.of(user.result))


def _takes_all(user: Op, array: Value) -> bool:
    """True for an op that reads or writes the whole array at once: no array of buffers can be the operand of one."""
    return any(getattr(user, name) is array for name in (*user.row.reads, *user.row.writes))


def _takes_slot(user: Op, uses: Uses) -> bool:
    """True for a slot, and for pointers that all have the same first index."""
    if user.name != "local_ptr" or not user.indices:
        return user.name == "buffer_index"
    first = affine(uses, user.indices[0])
    return first is not None and first.is_scalar


def _block(block: Block, types: dict[Value, Buffer], writer: Builder) -> Block:
    outside = writer.open()
    for op in block.ops:
        if op.row.allocates == "buffer" and op.result in types:
            writer.env[op.result] = made = Value(types[op.result], op.result.name, op.result.number)
            writer.ops.append(replace(op.with_operands(type=made.type), results=(made, )))
        elif op.blocks:
            args, inside = writer.now(op.args), op.with_blocks(lambda inner: _block(inner, types, writer))
            writer.ops.append(inside if args == op.args else replace(inside, args=args))
        else:
            writer.copy(op, op.args)
    return block.with_ops(writer.close(outside))
