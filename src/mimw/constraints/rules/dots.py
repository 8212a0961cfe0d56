"""Matrix products and the wait for asynchronous ones."""

from __future__ import annotations

from ...errors import TargetError
from ...ir.core import Op
from ...ir.layouts import DotOperand
from ...ir.types import Tensor
from ..explain import at
from ..tiles import Choice, Strength, Tiles
from ..wgmma import accumulator_layout, operand_k_width
from .registry import rule


@rule("dot")
def dot(op: Op, tiles: Tiles) -> None:
    """`tl.dot`: a default accumulator; Triton's accelerate_matmul turns it into a tensor-core one."""
    chosen = tiles.default(op.result.type.shape)
    for index in (0, 1):
        tiles.want(op, index, DotOperand(index, chosen.layout))
    tiles.want(op, 2, chosen.layout)
    tiles.give(op.result, chosen)


@rule("mma")
def mma(op: Op, tiles: Tiles) -> None:
    """`async_dot`: a tensor-core accumulator in and out, a register operand A as operand of it."""
    if not tiles.wgmma:
        raise TargetError(f"{at(op.site)} async_dot needs wgmma, which this target does not have")
    if op.attrs.get("emulated"):
        return _emulated(op, tiles)
    a, _, acc = op.args[:3]
    layout = accumulator_layout(op.result.type, a.type.element, a.type.shape[-1], tiles.num_warps, op.site)
    if isinstance(a.type, Tensor):
        tiles.want(op, 0, DotOperand(0, layout, operand_k_width(a.type.element)))
    if acc is not None:
        tiles.want(op, 2, layout)
    tiles.give(op.result, Choice(layout, Strength.MMA, op, f"{at(op.site)} async_dot accumulates in it"))


def _emulated(op: Op, tiles: Tiles) -> None:
    """As `tl.dot`, perhaps without an accumulator."""
    chosen = tiles.default(op.result.type.shape)
    for index, _ in tiles.operands(op):
        tiles.want(op, index, DotOperand(index, chosen.layout) if index < 2 else chosen.layout)
    tiles.give(op.result, chosen)


@rule("mma_wait")
def mma_wait(op: Op, tiles: Tiles) -> None:
    """The same layout in and out: the registers are still being written on the way in."""
    value = op.args[1]
    tiles.want(op, 0, tiles[value].layout)
    tiles.give(op.result, tiles[value])
