"""Regions: a value that crosses a border has one layout on both sides of it.

Input: an op with regions. Output: the layouts of what its regions take and give:

    %end = for %0 %n %1 (%init) { yield %next }        %init, %next, the block argument and %end: the strongest of their layouts
"""

from __future__ import annotations

from ....ir.core import Op
from ....ir.flow import carries
from ....ir.types import Tensor
from ..tiles import Tiles
from .registry import rule


@rule("carried")
def control(op: Op, tiles: Tiles) -> None:
    """Each carried value in the strongest layout of all values that flow into it; the op that hands a value over converts it."""
    edges = [carry for carry in carries(op) if isinstance(carry.target.type, Tensor)]

    def hand_over(giver: Op) -> None:
        for carry in edges:
            if carry.op is giver:
                tiles.carry(carry.source, carry.target)

    hand_over(op)
    for block in op.blocks:
        tiles.visit(block)
        if block.ops:
            hand_over(block.ops[-1])
    for carry in edges:
        tiles.want(carry.op, carry.index, tiles[carry.target].layout)


@rule("tasks")
def tasks(op: Op, tiles: Tiles) -> None:
    """Each task on its own warps; the default task on the program's."""
    for task, block in zip(op.attrs["tasks"], op.blocks, strict=True):
        tiles.visit(block, tiles.program.num_warps if task.is_default else task.num_warps)
    for carry in carries(op):
        if isinstance(carry.target.type, Tensor):
            tiles.carry(carry.source, carry.target)
            tiles.want(carry.op, carry.index, tiles[carry.target].layout)
