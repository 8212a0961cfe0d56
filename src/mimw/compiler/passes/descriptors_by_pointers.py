"""Triton's own accesses by tensor descriptors on chips without TMA: by AMD's data mover, or by pointers.

Input: a program and its target. Output: the program whose ops on descriptors say that they go `by_mover` on a chip that has one, or
`by_pointers`, as Triton does it in a kernel that is Triton's alone; the same object where the chip has TMA, or there is neither.
For example, for gfx942 and gfx1250:

    descriptor_store %y [%row, %column] %tile       gets by_pointers=True: any offset will do, what is outside is left alone
    descriptor_store %y [%row, %column] %tile       gets by_mover=True: a block that begins in front of the tensor is left alone
"""

from __future__ import annotations

from dataclasses import replace

from ...ir import Block, Op, Program
from ...target import Target

BY_POINTERS, BY_MOVER = "by_pointers", "by_mover"


def descriptors_by_pointers(program: Program, target: Target) -> Program:
    """The program with those marks."""
    mark = BY_MOVER if target.has("tdm") else BY_POINTERS
    if target.has("tma") or not target.binary or mark is BY_POINTERS and program.orchestrates():
        return program
    if not program.where(lambda row: mark in row.attributes):
        return program
    return replace(program, body=_marked(program.body, mark))


def _marked(block: Block, mark: str) -> Block:
    return block.with_ops(_op(op, mark) for op in block.ops)


def _op(op: Op, mark: str) -> Op:
    inside = op.with_blocks(lambda block: _marked(block, mark)) if op.blocks else op
    return inside.with_attrs(**{mark: True}) if mark in op.row.attributes else inside
