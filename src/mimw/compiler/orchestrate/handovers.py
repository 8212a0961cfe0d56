"""Tiles that a task computes and the tensor core takes: where they are stored, and at which op they are handed over.

Input: a plain program, its products and their sums, and which loads products read where they lie. Output: `Handover`s. For example:

    p = exp2(s - m);  o = dot(p, v, o * fade)       at the product: p as its left operand, o * fade as the beginning of its sum
    q = a.load(..) * scale;  for ..: s = dot(q, k)      q, at the loop: once for all its trips

Left operands of 16 bits and 128 rows go to tensor memory, while there are columns; all others to shared memory, where the tensor
core reads right operands alone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from ...ir import Buffer, Op, Program, Value
from ...ir.tensor_memory import COLUMNS, columns_of
from ..analysis.shared_rows import shared
from ..analysis.uses import Uses, uses_of
from .tensor_products import operand_of
from .tensor_sums import Sum


@dataclass(eq=False)
class Tile:
    """A tile and the product that takes it as `side`: "a", "b", or "acc", the beginning of its sum. `buffers`, for each task that
    computes; of the beginning of a sum these are the sum's."""

    value: Value
    product: Op
    side: str
    space: str = "smem"
    buffers: list[Value] = field(default_factory=list)


@dataclass(eq=False)
class Handover:
    """`tiles` that are handed over in front of the op `place`: a product, or a loop around it. `ready` are the barriers at which
    the task arrives that stores them, `used` those at which the tensor core arrives when it has read them, one list each task. If
    it `repeats`, a loop stands around it, or it has its buffers and barriers in common with another handover: `root` is the first
    one of these."""

    place: Op
    tiles: list[Tile]
    depth: int = 1
    repeats: bool = True
    root: Handover | None = None
    ready: list[Value] = field(default_factory=list)
    used: list[Value] = field(default_factory=list)

    @property
    def operands(self) -> list[Tile]:
        """Those of its tiles that lie in buffers of their own."""
        return [tile for tile in self.tiles if tile.side != "acc"]

    @property
    def is_given_back(self) -> bool:
        """True if the tensor core says when its operands are read: what a sum begins with is read with the sum."""
        return self.root.repeats and bool(self.operands)

    @property
    def label(self) -> str:
        """A name of what is handed over: an operand's, if it has one."""
        return next((tile.value.name for tile in (*self.operands, *self.tiles) if tile.value.name), "operand")

    @property
    def name(self) -> str:
        """The name of the number of its turn."""
        return f"{self.label}_given_turn"

    def buffers(self, tile: Tile, me: int) -> Value:
        """The buffers of one of its operands."""
        return self.root.operands[self.operands.index(tile)].buffers[me]


def handovers_of(program: Program, sums: Collection[Sum], direct: Collection[Op]) -> list[Handover]:
    """The handovers of a program, in program order. `direct` are loads that products read where they lie."""
    uses, found = uses_of(program), {}
    for sum_ in sums:
        if not sum_.from_zero:
            found.setdefault(sum_.head, []).append(Tile(sum_.first, sum_.products[0], "acc", "tmem"))
        for op in sum_.products:
            for side, value in (("a", op.a), ("b", op.b)):
                if operand_of(uses, value)[0] not in direct:
                    found.setdefault(_place(uses, op, value), []).append(Tile(value, op, side))
    groups = [Handover(place, tiles, _depth(uses, place, tiles, sums), bool(uses.loops(place)))
              for place, tiles in sorted(found.items(), key=lambda one: uses.position[one[0]])]
    for at, one in enumerate(groups):
        one.root = next((other for other in groups[:at] if other.root is other and all(
            _follows(uses, one, member) for member in groups[:at] if member.root is other)), one)
        one.root.repeats = one.root.repeats or one.root is not one
    return groups


def _follows(uses: Uses, one: Handover, other: Handover) -> bool:
    """True if a handover may have the buffers of one that is over: the same tiles in another block."""
    return [(tile.side, tile.value.type) for tile in one.tiles] == [(tile.side, tile.value.type) for tile in other.tiles] and \
        one.depth == other.depth and uses.place[one.place].block is not uses.place[other.place].block and \
        uses.last[other.place] < uses.position[one.place]


def _place(uses: Uses, product: Op, value: Value) -> Op:
    """The op at which an operand is handed over: the outermost loop around the product in which it stays the same, else the
    product."""
    made, argument = uses.definition.get(value), uses.argument.get(value)
    block = uses.place[made].block if made is not None else argument.block if argument is not None else uses.program.body
    place = product
    while uses.place[place].block is not block and (loop := uses.place[place].parent) is not None and loop.name == "for":
        place = loop
    return place


def _depth(uses: Uses, place: Op, tiles: list[Tile], sums: Collection[Sum]) -> int:
    """Two slots where the task may compute the next trip's operands meanwhile: if the sum stays where it is from trip to trip."""
    stays = any(sum_.loop is not None and place in sum_.products for sum_ in sums)
    return 2 if stays and all(tile.side != "acc" for tile in tiles) else 1


# ---- where tiles lie ---------------------------------------------------------------------------------------------------------


def columns(sums: Collection[Sum], axes: Mapping[Value, int], parts: int) -> int:
    """The columns of tensor memory that sums take."""
    return sum(parts * sum_.depth * columns_of(buffer_of(sum_.result, axes, parts, "tmem")) for sum_ in sums if sum_.root is sum_)


def buffer_of(value: Value, axes: Mapping[Value, int], parts: int, space: str, count: int = 0) -> Buffer:
    """The type of a buffer for a task's part of a tile."""
    type_ = shared(value.type, axes.get(value), parts)
    return Buffer(type_.element, type_.shape, count, space)


def place_operands(handed: Collection[Handover], free: int, axes: Mapping[Value, int], parts: int) -> None:
    """Left operands go to tensor memory, in order, while there are columns left of those that sums leave `free`."""
    for group in handed:
        for tile, first in zip(group.operands, group.root.operands):
            if tile is not first:
                tile.space = first.space
                continue
            type_ = buffer_of(tile.value, axes, parts, "tmem")
            takes = parts * group.depth * columns_of(type_)
            if tile.side == "a" and type_.element.bits == 16 and type_.shape[0] == 128 and takes <= free:
                tile.space, free = "tmem", free - takes


def shared_bytes(handed: Collection[Handover], axes: Mapping[Value, int], parts: int) -> int:
    """Bytes of shared memory that operands take."""
    return sum(parts * group.depth * buffer_of(tile.value, axes, parts, "smem").bytes
               for group in handed if group.root is group for tile in group.operands if tile.space == "smem")


__all__ = ["COLUMNS", "Handover", "Tile", "buffer_of", "columns", "handovers_of", "place_operands", "shared_bytes"]
