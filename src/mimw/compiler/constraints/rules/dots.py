"""Matrix products and the wait for asynchronous ones.

Input: a product. Output: a layout for its accumulator, and for operands in registers:

    %acc2 = async_dot %a %b %acc        %acc2 and %acc in mma(...) of wgmma.py; %a, if it is a tile, as its dot operand
"""

from __future__ import annotations

from ....errors import TargetError
from ....ir.core import Op
from ....ir.layouts import AmdMfma, AmdWmma, DotOperand
from ....ir.matrix_core_maps import scales
from ....ir.types import Tensor
from ..explain import at
from ..matrix_cores import SCALED_WIDTH, accumulator_for, accumulator_of_author, operand_layouts, scaled_accumulator
from ..tiles import Choice, Strength, Tiles
from ..wgmma import accumulator_layout, operand_k_width, padded_accumulator
from .memory import memory
from .registry import rule


@rule("dot")
def dot(op: Op, tiles: Tiles) -> None:
    """`tl.dot`: a default accumulator; Triton's accelerate_matmul turns it into a tensor-core one. On AMD the accumulator in whose
    layout its author has put an operand or the sum."""
    if (layout := accumulator_of_author(op, tiles)) is not None:
        return _on_matrix_cores(op, layout, tiles, Strength.PINNED, "as its operands say")
    if op.attrs.get("registers") and (layout := accumulator_for(op, tiles)) is not None:
        return _on_matrix_cores(op, layout, tiles, Strength.SLICE_OF_MMA, "as the largest instruction that fits has it")
    chosen = tiles.default(op.result.type.shape)
    for index, name in enumerate(("a", "b")):
        tiles.want_named(op, name, DotOperand(index, chosen.layout))
    tiles.want_named(op, "acc", chosen.layout)
    tiles.give(op.result, chosen)


@rule("scaled")
def dot_scaled(op: Op, tiles: Tiles) -> None:
    """`tl.dot_scaled`: as Triton lays it out, unless the author has put an operand or the sum in a layout of AMD's matrix cores, or
    said how many instructions of a warp lie side by side."""
    layout = scaled_accumulator(op, tiles)
    if layout is None:
        return memory(op, tiles)
    for index, (name, scale) in enumerate((("a", "a_scale"), ("b", "b_scale"))):
        tiles.want_named(op, name, DotOperand(index, layout, SCALED_WIDTH))
        if (blocks := getattr(op, scale)) is not None:
            tiles.want_named(op, scale, scales(index, layout, blocks.type.shape))
    tiles.want_named(op, "acc", layout)
    tiles.give(op.result, Choice(layout, Strength.PINNED, op, f"{at(op.site)} {op.name} accumulates in it, as its author says"))


@rule("mma")
def mma(op: Op, tiles: Tiles) -> None:
    """`async_dot`: a tensor-core accumulator in and out, a register operand A as operand of it."""
    if not tiles.target.has("wgmma"):
        raise TargetError(f"{at(op.site)} async_dot needs wgmma, which this target does not have")
    if op.attrs.get("emulated"):
        return _emulated(op, tiles)
    a, exact = op.a.type, op.attrs.get("exact")
    layout = (padded_accumulator(op, tiles.num_warps) if exact else
              accumulator_layout(op.result.type, a.element, a.shape[-1], tiles.num_warps, op.site))
    if isinstance(a, Tensor):
        tiles.want_named(op, "a", DotOperand(0, layout, operand_k_width(a.element)))
    if op.acc is not None:
        tiles.want_named(op, "acc", layout)
    tiles.give(op.result, Choice(layout, Strength.MMA, op, f"{at(op.site)} async_dot accumulates in it"))


def _on_matrix_cores(op: Op, layout: AmdMfma | AmdWmma, tiles: Tiles, strength: Strength, why: str) -> None:
    """Operands and sum as the matrix core takes them. What its author has pinned stays pinned; what was chosen here, for an
    attribute that only a product of matrix cores has, may be converted behind it."""
    for operand, name in zip(operand_layouts(op, layout, tiles), ("a", "b"), strict=True):
        tiles.want_named(op, name, operand)
    tiles.want_named(op, "acc", layout)
    tiles.give(op.result, Choice(layout, strength, op, f"{at(op.site)} {op.name} accumulates in it, {why}"))


def _emulated(op: Op, tiles: Tiles) -> None:
    """Lay the operands out for `tl.dot`, whose accumulator may be absent."""
    chosen = tiles.default(op.result.type.shape)
    for index, name in enumerate(("a", "b")):
        tiles.want_named(op, name, DotOperand(index, chosen.layout))
    if op.acc is not None:
        tiles.want_named(op, "acc", chosen.layout)
    tiles.give(op.result, chosen)


@rule("mma_wait")
def mma_wait(op: Op, tiles: Tiles) -> None:
    """The same layout in and out: the registers are still being written on the way in."""
    tiles.want_named(op, "value", tiles[op.value].layout)
    tiles.give(op.result, tiles[op.value])
