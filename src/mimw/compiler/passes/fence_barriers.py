"""Copies complete bytes on a barrier through the async proxy, which must see the barrier initialised.

Input: a program. Output: the program with a fence behind its allocations of barriers, if a copy completes on any
barrier:

    %full = alloc_barriers 2 1       becomes       %full = alloc_barriers 2 1; fence "async_shared"

Initialising is a generic write. One fence after the allocations that stand together makes it visible; the sync that
follows before any use, or before tasks start, is Triton's (CUDA programming guide, "Using TMA": `init`, then
`fence_proxy_async_shared_cta`).
"""

from __future__ import annotations

from dataclasses import replace

from ...ir import Barrier, Block, Op, Program
from ...ir.ops import is_pure


def fence_barriers(program: Program) -> Program:
    """The program with a fence after its barrier allocations, if any copy completes on a barrier."""
    if not any(map(_completes_on_barrier, program.where(lambda row: "async" in row.effects))):
        return program
    return replace(program, body=_fenced(program.body))


def _completes_on_barrier(op: Op) -> bool:
    return any(isinstance(value.type, Barrier) for value in op.operands)


def _fenced(block: Block) -> Block:
    ops: list[Op] = []
    allocated: Op | None = None
    for op in block.ops:
        if allocated and not op.row.allocates and not is_pure(op.name):
            ops.append(Op("fence", ("async_shared", ), site=allocated.site))
            allocated = None
        if op.row.allocates == "barriers":
            allocated = op
        ops.append(op.with_blocks(_fenced))
    return block.with_ops(ops)
