"""What ptxas says of a kernel whose threads have too few registers for one of its instructions, in the user's words.

Every thread of a CTA starts with the same share of the register file, and ptxas holds each instruction to that share: `setmaxnreg`
(`registers=` of a task) comes too late. A product on the tensor cores has its whole accumulator in one instruction.
Input: the program, its target, and the message of ptxas. Output: a `TooFewRegisters`, or None if ptxas complains of something else:

    too_few_registers(program, target, "(C7602) Insufficient registers (80) .. register target of 90 or higher")
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod

from ..analysis.registers import total_warps
from ..errors import TooFewRegisters
from ..ir import Block, Op, Program, Tensor
from ..ir.types import element_of
from ..target import Target

_SAID = re.compile(r"Insufficient registers \((\d+)\).*register target of (\d+)", re.DOTALL)
_PRODUCTS = ("dot", "async_dot", "dot_scaled")


def too_few_registers(program: Program, target: Target, message: str) -> TooFewRegisters | None:
    """The refusal, at the product with the largest accumulator a thread."""
    said = _SAID.search(message)
    if said is None:
        return None
    have, need = map(int, said.groups())
    warps = total_warps(program)
    fits = target.registers_per_cta // (-(-need // target.register_unit) * target.register_unit * target.warp_size) // 4 * 4
    largest = max(_products(program.body, program.num_warps), key=lambda pair: pair[1], default=None)
    held = f" The product at {largest[0].site} alone holds {largest[1]} of them for its sum." if largest else ""
    return TooFewRegisters(
        f"an instruction needs {need} registers a thread; the {warps} warps of the CTA share {target.registers_per_cta}, which is "
        f"{have} for each of {warps * target.warp_size} threads.{held}", *([largest[0].site] if largest else [program.site]),
        hint=f"use at most {fits} warps in all, or a smaller tile of the product; `registers=` moves registers only after the "
        "start, which is too late for this.", required=need, limit=have)


def _products(block: Block, warps: int) -> Iterator[tuple[Op, int]]:
    """(product, registers of its sum in each thread)."""
    for op in block.ops:
        if op.name in _PRODUCTS and isinstance(op.results[0].type, Tensor):
            type_ = op.results[0].type
            yield op, prod(type_.shape) * element_of(type_).bits // 32 // (32 * warps)
        tasks = op.attrs["tasks"] if op.name == "warp_specialize" else [None] * len(op.blocks)
        for inner, task in zip(op.blocks, tasks, strict=True):
            yield from _products(inner, warps if task is None or task.is_default else task.num_warps)
