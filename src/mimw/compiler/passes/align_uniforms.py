"""Facts about numbers and addresses that `assume_uniform` hands on: Triton's analyses do not look through its assembly.

Input: a program and its target. Output: the program with a hint behind each `uniform` whose operand has a known divisor; the same
object where there is none, and on NVIDIA's chips, where the word is nothing. For example, for n divisible by 16:

    %m = uniform %n        becomes        %m = uniform %n; hint %m 'tt.divisibility' (16,)

Copies from an address are as wide as its alignment allows, and one of unknown alignment goes through registers.
"""

from __future__ import annotations

from dataclasses import replace

from ...ir import Block, Op, Program
from ...ir.build import Builder
from ...target import Target
from ..analysis import Uses, uses_of
from ..analysis.mask_runs import divisor


def align_uniforms(program: Program, target: Target) -> Program:
    """The program in which those values are told again what divides them."""
    if target.assembly == "ptx" or not program.named("uniform"):
        return program
    return replace(program, body=_block(program.body, uses_of(program)))


def _block(block: Block, uses: Uses) -> Block:
    return block.with_ops(made for op in block.ops for made in _told(op.with_blocks(lambda inner: _block(inner, uses)), uses))


def _told(op: Op, uses: Uses) -> tuple[Op, ...]:
    known = divisor(uses, op.value) if op.name == "uniform" and not op.value.type.is_float else 1
    if known == 1:
        return (op, )
    builder = Builder(op.site)
    builder.emit("hint", (op.result, "tt.divisibility", (known, )))
    return op, *builder.ops
