"""Fences between proxies on a chip that has one way to memory only: nothing is left of them.

Input: a program and its target. Output: the program without `fence "async_shared"`; the same object where there are proxies, or no
such fence. For example, on gfx942:

    fence 'async_shared'; barrier_arrive %full        becomes        barrier_arrive %full
"""

from __future__ import annotations

from dataclasses import replace

from ...ir import Block, Op, Program
from ...target import Target


def drop_proxy_fences(program: Program, target: Target) -> Program:
    """The program without those fences. Fences of memory stay."""
    if "proxies" not in target.mapped or not any(map(_is_proxy_fence, program.where(lambda row: row.needs == "proxies"))):
        return program
    return replace(program, body=_block(program.body))


def _is_proxy_fence(op: Op) -> bool:
    return op.row.needs == "proxies" and bool(op.row.needs_of(op))


def _block(block: Block) -> Block:
    return block.with_ops(op.with_blocks(_block) for op in block.ops if not _is_proxy_fence(op))
