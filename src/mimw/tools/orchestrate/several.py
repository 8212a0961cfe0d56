"""Plans of which a multiprocessor holds several programs at once, for kernels whose loops are short.

Input: a plain program, its chip, and how many tiles a launch has. Output: plans to try. For example, of tiles of 128 x 128 by eight
warps:

    list(several(program, chip, 1024))      [Plan(warps=4, programs=2), the same with programs that take tiles in turn]

A short loop ends before its pipe has paid: the plain kernel then stores one program's tile beside another one's loads. A program with
every slot that fits is alone on its multiprocessor, and one with half of them is not. What tells it before anything is written are
registers: a product of N columns has N / 2 of them for its sum in one instruction, and each instruction has to do with what a thread
has when the kernel starts; all sums of a loop together with what a consumer has later.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from ...compiler.orchestrate.plan import Plan
from ...compiler.orchestrate.residency import at_launch, of_consumers
from ...ir import Op, Program
from ...target import Target

MOST = 4                # programs on a multiprocessor
WIDEST = 256            # columns of one instruction (PTX ISA, wgmma.mma_async)
BESIDES, OTHERS = 26, 24    # registers: of an instruction besides its sum, as ptxas says (C7602); of a consumer besides its sums
_SHAPES = (1, 4), (2, 4), (1, 8)        # consumers, and the warps of each


def several(program: Program, chip: Target, tiles: int) -> Iterator[Plan]:
    """The plans with two programs or more on a multiprocessor, the fewest first; none for a launch that has no tile for the second."""
    if not chip.has("register_moves") or chip.has("tensor_memory") or not program.named("dot"):
        return
    for programs in range(2, MOST + 1):
        if tiles <= chip.multiprocessors * (programs - 1):
            return
        for consumers, warps in _SHAPES:
            plan = Plan(consumers=consumers, warps=warps, programs=programs)
            if _has_registers(program, plan, chip):
                yield plan
                yield replace(plan, persistent=True)


def _has_registers(program: Program, plan: Plan, chip: Target) -> bool:
    """True if ptxas may take it: else the plan need not be written."""
    start = at_launch(plan, program.num_warps, chip)
    later = of_consumers(plan, program.num_warps, chip, plan.producer_registers) or start
    threads = plan.consumers * (plan.warps or 0) * chip.warp_size
    if any(min(WIDEST, op.result.type.shape[-1]) // 2 + BESIDES > start for op in program.named("dot")):
        return False
    return all(sum(prod(op.result.type.shape) for op in dots) // threads + OTHERS <= later for dots in _by_block(program).values())


def _by_block(program: Program) -> dict[int, list[Op]]:
    """The products of each loop's own block, and of the kernel's."""
    found: dict[int, list[Op]] = {}
    for block in (program.body, *(block for op in program.walk() if "loop" in op.row.traits for block in op.blocks)):
        found[id(block)] = [op for op in block.ops if op.name == "dot"]
    return found
