"""Ops of which one instruction takes neighbouring elements of one thread.

Input: an op. Output: a layout for its tiles in which neighbours along the last dimension are neighbouring registers:

    stoch_round %x fp8e4nv[128, 64] %random     %x in blocked([1, 1], ...): blocked([1, 4], ...), four to an instruction
"""

from __future__ import annotations

from ....ir.core import Op
from ....ir.layouts import Blocked, RegisterLayout
from ....ir.linear import linear_of
from ....ir.ops.rounding import SHARING
from ....ir.types import element_of
from ..explain import at
from ..tiles import Choice, Strength, Tiles
from .registry import rule


@rule("neighbours")
def neighbours(op: Op, tiles: Tiles) -> None:
    """The layout of the strongest operand if neighbours lie so in it, else a blocked one in which they do."""
    values = [value for _, value in tiles.operands(op)]
    if not values:
        return
    shape = values[0].type.shape
    each = min(SHARING[element_of(op.result.type).bits], shape[-1])
    chosen = tiles.strongest(values)
    if not _side_by_side(chosen.layout, shape, each):
        reason = f"{at(op.site)} {op.name} takes {each} neighbours at once"
        chosen = Choice(in_pieces(shape, each, tiles), Strength.DEFAULT, op, reason)
    tiles.give(op.result, chosen)
    for index, _ in tiles.operands(op):
        tiles.want(op, index, chosen.layout)


def _side_by_side(layout: RegisterLayout, shape: tuple[int, ...], each: int) -> bool:
    """True if the first bits of the register step through `each` elements of the last dimension."""
    known, bits = linear_of(layout, shape), each.bit_length() - 1
    steps = tuple((*(0, ) * (len(shape) - 1), 1 << bit) for bit in range(bits))
    return known is not None and known.registers[:bits] == steps


def in_pieces(shape: tuple[int, ...], each: int, tiles: Tiles) -> Blocked:
    """The default of the shape whose last dimension counts in pieces of `each`."""
    pieces = tiles.default((*shape[:-1], shape[-1] // each)).layout
    return Blocked((*(1, ) * (len(shape) - 1), each), pieces.threads_per_warp, pieces.warps, pieces.order)
