"""Slices of tiles in registers: no element leaves its lane.

Input: `extract_slice`. Output: the layout of its result, which is the operand's:

    %y = extract_slice %x (32, 32) (0, 32)       %x in blocked([1, 1], [2, 32], [4, 1]): %y in it, too, from every second register
"""

from __future__ import annotations

from ....errors import LayoutConflict
from ....ir.bases import Bases, Basis
from ....ir.core import Op
from ....ir.layouts import Linear, RegisterLayout
from ....ir.linear import linear_of
from ..defaults import default_blocked
from ..explain import at
from ..tiles import Choice, Strength, Tiles
from .registry import rule


@rule("sliced")
def sliced(op: Op, tiles: Tiles) -> None:
    """The operand's layout, if a slice at these offsets is whole registers of it (AMD's `amdg.extract_slice` verifies that), else,
    if its author has not pinned it, one whose lanes and warps reach over a part of the slice only."""
    chosen = tiles[op.value]
    if not _is_whole_registers(chosen.layout, op):
        if chosen.strength is Strength.PINNED:
            _refuse(chosen, op)
        reason = f"{at(op.site)} extract_slice takes whole registers of it"
        chosen = Choice(_around(op, tiles), Strength.DEFAULT, op, reason)
    tiles.want_named(op, "value", chosen.layout)
    layout = chosen.layout
    if isinstance(layout, Linear):
        layout = linear_of(layout, op.result.type.shape)
    tiles.give(op.result, Choice(layout, chosen.strength, chosen.origin, chosen.reason))


def _is_whole_registers(layout: RegisterLayout, op: Op) -> bool:
    """True if every element of the slice lies in the lane and warp that the layout gives to its place in a tile of the slice's
    shape."""
    whole, part = linear_of(layout, op.value.type.shape), linear_of(layout, op.result.type.shape)
    if whole is None or (whole.lanes, whole.warps) != (part.lanes, part.warps):
        return False
    owners = [0] * len(whole.shape)     # along each dimension, the bits of a coordinate that pick a lane or a warp
    for basis in (*whole.lanes, *whole.warps):
        if sum(map(bool, basis)) > 1:
            return False
        owners = [bits | step for bits, step in zip(owners, basis)]
    return all((index + first) & bits == index & bits
               for bits, first, extent in zip(owners, op.offsets, op.shape, strict=True) for index in range(extent))


def _around(op: Op, tiles: Tiles) -> Linear:
    """A layout of the whole tile whose lanes and warps reach over a box that slice and offsets are multiples of."""
    box = tuple(min(extent, first & -first or extent) for first, extent in zip(op.offsets, op.shape, strict=True))
    inside = linear_of(default_blocked(box, tiles.num_warps, tiles.warp_size), box)
    registers = tuple(basis for basis in inside.registers if any(basis))
    return Bases(len(box), registers, inside.lanes, inside.warps, box).fitted(op.value.type.shape)


def _refuse(chosen: Choice, op: Op) -> None:
    known: Linear | None = linear_of(chosen.layout, op.value.type.shape)
    steps: list[Basis] = [*known.lanes, *known.warps] if known else []
    units = [2 * max((basis[axis] for basis in steps), default=0) or 1 for axis in range(len(op.shape))]
    raise LayoutConflict(
        f"extract_slice of {list(op.shape)} at {list(op.offsets)} would move elements between lanes: {chosen.layout}, which its "
        f"author has pinned, gives each lane and warp an element of every {' x '.join(map(str, units))}.", op.site,
        hint=f"slice multiples of {units} at multiples of them, or release_layout the tile before.")
