"""Elements of a tile as registers of assembly: integers of 64 bits, or of 32 that hold no more than the element.

Input: a tile, and the element that is meant. Output: ops that make the one of the other. For example:

    elements(here, %bits, fp16)             int_cast %bits i16, bitcast fp16
    registers(here, %tile, i32[128])        bitcast %tile i16, int_cast i32, as the result of the op that is read
"""

from __future__ import annotations

from ...ir import Op, Scalar, Type, Value, like
from .reading import Here


def elements(here: Here, bits: Value, element: Scalar) -> tuple[list[Op], Value]:
    """The ops that make elements of a tile of integers of one register each, and the tile."""
    ops = []
    if bits.type.element.bits > element.bits:
        narrow = here.value(like(bits.type, Scalar(f"i{element.bits}")))
        ops.append(here.op("int_cast", bits, narrow.type, False, results=(narrow, )))
        bits = narrow
    if bits.type.element != element:
        seen = here.value(like(bits.type, element))
        ops.append(here.op("bitcast", bits, seen.type, results=(seen, )))
        bits = seen
    return ops, bits


def registers(here: Here, tile: Value, wanted: Type) -> list[Op]:
    """The ops that make the op's result, integers of one register each, of a tile of elements."""
    element, ops = tile.type.element, []
    if element.is_float:
        bits = here.value(like(tile.type, Scalar(f"i{element.bits}")))
        ops.append(here.op("bitcast", tile, bits.type, results=(bits, )))
        tile = bits
    if tile.type == wanted:
        here.stands_for(tile)
        return ops
    return [*ops, here.op("int_cast", tile, wanted, False)]
