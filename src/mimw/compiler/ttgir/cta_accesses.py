"""Accesses of threads to shared memory of other CTAs, in a program of several: a tile that is divided otherwise than its buffer.

Input: how tile and buffer lie in the CTAs. Output: for each element of this CTA's part of the tile the CTA that has it in the
buffer, and its number there, as flat tiles. For example, of a tile by rows and a buffer by columns of 2 x 128:

    places(here, tile, buffer)      numbers (i & 63) + 64 * rank, ranks i >> 6 & 1

All three are bits of coordinates: each bit of a rank or a number there is one of the element's number here, of this CTA's rank, or,
along a dimension in which elements are picked, of the number that picks.
"""

from __future__ import annotations

from collections import defaultdict
from math import prod

from ...ir import I32, Op, Tensor, Value
from .cta_parts import Split
from .reading import Here

_I32_BITS = 32
Source = tuple[str, int]        # "number", "rank" or "picked", and which bit of it


def places(here: Here, tile: Split, buffer: Split, picked: tuple[int, Value] | None = None) -> tuple[list[Op], Value, Value]:
    """The ops, the numbers of the elements in the parts of the buffer, and the ranks of the CTAs that have these. `picked`: an
    axis, and a tile with the coordinate of each element along it; one outside of the buffer gives a number that is, too."""
    here_bits = {bit: ("rank", place) for place, bit in enumerate(tile.bits) if bit}
    here_bits |= {bit: ("number", at) for at, bit in enumerate(_flat(tile))}
    flat = Tensor(I32, (prod(tile.part), ))
    values = {"number": here.value(flat), "rank": here.reader.rank}
    ops, outside = [here.op("make_range", flat, 0, flat.shape[0], results=(values["number"], ))], {}
    if picked is not None:
        axis, coordinate = picked
        bits = buffer.shape[axis].bit_length() - 1
        here_bits |= {(axis, bit): ("picked", bit) for bit in range(bits)}
        outside = {len(_flat(buffer)) + bit: ("picked", bits + bit) for bit in range(_I32_BITS - max(bits, len(_flat(buffer))))}
        values["picked"] = here.value(flat)
        ops += as_i32(here, coordinate, values["picked"])
    position = _put(here, ops, values, {at: here_bits[bit] for at, bit in enumerate(_flat(buffer))} | outside)
    rank = _put(here, ops, values, {place: here_bits[bit] if bit else ("rank", place) for place, bit in enumerate(buffer.bits)})
    return ops, position, rank


def as_i32(here: Here, tile: Value, flat: Value) -> list[Op]:
    """The ops that make a tile of numbers a flat one of 32 bits."""
    ops, narrow = [], tile
    if tile.type.element != I32:
        narrow = here.value(Tensor(I32, tile.type.shape))
        ops = [here.op("int_cast", tile, narrow.type, True, results=(narrow, ))]
    return [*ops, here.op("reshape", narrow, flat.type.shape, False, results=(flat, ))]


def _flat(split: Split) -> list[tuple[int, int]]:
    """The bits of coordinates that are left in a part, from the lowest bit of a row-major number on."""
    return [(axis, bit) for axis in reversed(range(len(split.shape))) for bit in range(split.shape[axis].bit_length() - 1)
            if (axis, bit) not in split.bits]


def _put(here: Here, ops: list[Op], values: dict[str, Value], bits: dict[int, Source]) -> Value:
    """A tile whose bits are bits of other numbers; neighbours that move alike are moved together."""
    number = values["number"]
    moves: dict[tuple[str, int], int] = defaultdict(int)
    for at, (source, bit) in bits.items():
        moves[source, at - bit] |= 1 << bit

    def step(name: str, left: Value, right: int | Value) -> Value:
        if isinstance(right, int):
            made, right = here.number(right, left.type)
            ops.append(made)
        found = here.value(left.type)
        ops.append(here.op(name, left, right, results=(found, )))
        return found

    made, found = here.number(0, number.type)
    ops.append(made)
    for (source, distance), mask in moves.items():
        moved = step("and", values[source], mask - (1 << _I32_BITS) if mask >> _I32_BITS - 1 else mask)
        moved = step("shl" if distance > 0 else "lshr", moved, abs(distance))
        if source == "rank":
            spread = here.value(number.type)
            ops.append(here.op("splat", number.type, moved, results=(spread, )))
            moved = spread
        found = step("or", found, moved)
    return found
