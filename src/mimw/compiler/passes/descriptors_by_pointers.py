"""Tensor descriptors of a kernel that is Triton's alone, on a chip without TMA: Triton makes masked accesses by pointers of them.

Input: a program and its target. Output: the program whose ops on descriptors say that they go `by_pointers`; the same object where
the chip has TMA, or where the kernel has words of ours, which are TMA's. For example, for gfx942:

    descriptor_store %y [%row, %column] %tile       gets by_pointers=True: any offset will do, what is outside is left alone
"""

from __future__ import annotations

from dataclasses import replace

from ...ir import Block, Op, Program
from ...target import Target

BY_POINTERS = "by_pointers"


def descriptors_by_pointers(program: Program, target: Target) -> Program:
    """The program with those marks."""
    if target.has("tma") or not target.binary or program.orchestrates():
        return program
    if not program.where(lambda row: BY_POINTERS in row.attributes):
        return program
    return replace(program, body=_marked(program.body))


def _marked(block: Block) -> Block:
    return block.with_ops(_op(op) for op in block.ops)


def _op(op: Op) -> Op:
    inside = op.with_blocks(_marked) if op.blocks else op
    return inside.with_attrs(**{BY_POINTERS: True}) if BY_POINTERS in op.row.attributes else inside
