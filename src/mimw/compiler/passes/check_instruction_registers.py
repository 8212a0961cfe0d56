"""Complaints of ptxas about a kernel whose threads have too few registers for one of its instructions, in the user's words.

Every thread of a CTA starts with the same part of the register file, and ptxas holds each instruction to that part:
`setmaxnreg` (`registers=` of a task) comes too late. A product on the tensor cores has its whole accumulator in one
instruction, and a load or store of tensor memory its tile. Where each instruction alone would fit, ptxas may still fail to
allocate everything that a task holds (C7600); there `registers=` does help. Input: the program, its target, and the message
of ptxas. Output: a `TooFewRegisters`, or None if ptxas complains of something else:

    too_few_registers(program, target, "(C7602) Insufficient registers (80) .. register target of 90 or higher")
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod

from ...errors import TooFewRegisters
from ...ir import Block, Op, Program, Tensor
from ...ir.types import element_of
from ...target import Target
from ..analysis.registers import total_warps

_SAID = re.compile(r"Insufficient registers \((\d+)\).*register target of (\d+)", re.DOTALL)  # C7602: one instruction
_NO_PLACE = re.compile(r"Register allocation failed with register count of '(\d+)'")  # C7600: all that a task holds


def too_few_registers(program: Program, target: Target, message: str) -> TooFewRegisters | None:
    """The refusal, at the product with the largest accumulator a thread, or the access to tensor memory with the largest tile."""
    warps = total_warps(program)
    threads = f"the {warps} warps of the CTA share {target.registers_per_cta}"
    largest = max(_held(program.body, program.num_warps, target.warp_size), key=lambda pair: pair[1], default=None)
    held, tile = "", "a smaller tile of the product"
    if largest and _moves_a_tile(largest[0]):
        held = f" The {largest[0].row.word} at {largest[0].site} alone holds {largest[1]} of them for its tile."
        tile = "`tlx.subslice` of fewer columns at a time"
    elif largest:
        held = f" The product at {largest[0].site} alone holds {largest[1]} of them for its sum."
    site = largest[0].site if largest else program.site
    if said := _SAID.search(message):
        have, need = map(int, said.groups())
        fits = target.registers_per_cta // (-(-need // target.register_unit) * target.register_unit * target.warp_size) // 4 * 4
        return TooFewRegisters(
            f"an instruction needs {need} registers a thread; {threads}, which is "
            f"{have} for each of {warps * target.warp_size} threads.{held}", site,
            hint=f"use at most {fits} warps in all, or {tile}; `registers=` moves registers only after the "
            "start, which is too late for this.", required=need, limit=have)
    if said := _NO_PLACE.search(message):
        have = int(said[1])
        return TooFewRegisters(
            f"ptxas finds no place for what a thread holds; {threads}, which is {have} for each of {warps * target.warp_size} "
            f"threads.{held}", site,
            hint=f"use fewer warps in all or {tile}, or ask for more registers in the product's task and for "
            "fewer in the others (`registers=`).", limit=have)
    return None


def _held(block: Block, warps: int, warp_size: int) -> Iterator[tuple[Op, int]]:
    """(product or access to tensor memory, registers of its tile in each thread)."""
    for op in block.ops:
        if (type_ := _tile(op)) is not None:
            yield op, prod(type_.shape) * element_of(type_).bits // 32 // (warp_size * warps)
        tasks = op.attrs["tasks"] if op.name == "warp_specialize" else [None] * len(op.blocks)
        for inner, task in zip(op.blocks, tasks, strict=True):
            yield from _held(inner, warps if task is None or task.is_default else task.num_warps, warp_size)


def _tile(op: Op) -> Tensor | None:
    """The tile that one instruction of the op holds in registers; None if it holds none."""
    if _moves_a_tile(op):
        return next(value.type for value in (*op.results, *op.args) if isinstance(value.type, Tensor))
    if "dot" in op.row.traits and op.results and isinstance(op.results[0].type, Tensor):
        return op.results[0].type
    return None


def _moves_a_tile(op: Op) -> bool:
    """True if the op loads or stores tensor memory by registers."""
    return op.row.needs == "tensor_memory" and "collective" in op.row.traits
