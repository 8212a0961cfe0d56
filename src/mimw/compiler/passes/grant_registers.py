"""Writes the register requests of every region as the hardware is to be asked for them.

Input: a program and its target. Output: the program with attrs `registers` on each region, one number or None a task:

    tasks of 4, 4 and 1 warps that ask for None, 240 and 24       registers=(None, 240, 24)
"""

from __future__ import annotations

from dataclasses import replace

from ...ir import Block, Op, Program
from ...target import Target
from ..analysis.registers import requests


def grant_registers(program: Program, target: Target) -> Program:
    """The program with `registers` on each of its regions (`analysis.registers.requests`); the same object without regions."""
    asked = requests(program, target)
    return replace(program, body=_block(program.body, asked)) if asked else program


def _block(block: Block, asked: dict[Op, tuple]) -> Block:
    return block.with_ops(_op(op, asked) for op in block.ops)


def _op(op: Op, asked: dict[Op, tuple]) -> Op:
    inside = op.with_blocks(lambda block: _block(block, asked))
    return inside.with_attrs(registers=asked[op]) if op in asked else inside
