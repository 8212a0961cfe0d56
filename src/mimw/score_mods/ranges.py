"""How large whole numbers of a score_mod may be: in 32 or in 64 bits, with or without a sign, inside of a table or perhaps not.

Input: an expression, the extents of a call, and its tables' extents and types. Output: bounds of each whole number. For example:

    ends = ranges(parsed("q - k + 7"), Box(1, 8, 512, 512), ())        ends[node] is (-504, 518)

Bounds are those of exact numbers; beyond 64 bits a number wraps, as torch's do, and may be anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .nodes import INT, NARROW, Node, in_order

WHOLE = -(1 << 63), (1 << 63) - 1
Ends = tuple[int, int]


class Box(NamedTuple):
    """The extents of a call: batches, heads, queries, keys."""

    batches: int
    heads: int
    queries: int
    keys: int


class TableType(NamedTuple):
    """Of a table: its extents, and the bounds of its type if that is one of whole numbers."""

    extents: tuple[int, ...]
    ends: Ends | None = None


def of_bits(bits: int, signed: bool = True) -> Ends:
    """The bounds of numbers of so many bits."""
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)


def ranges(root: Node | Sequence[Node], box: Box, tables: Sequence[TableType]) -> dict[Node, Ends]:
    """The lowest and the highest value of each whole number in expressions."""
    found: dict[Node, Ends] = {}
    for node in in_order(*([root] if isinstance(root, Node) else root)):
        if node.kind == INT:
            low, high = _ends(node, [found.get(part, (0, 1)) for part in node.parts], box, tables)
            found[node] = (low, high) if WHOLE[0] <= low and high <= WHOLE[1] else WHOLE
    return found


def _ends(node: Node, parts: list[Ends], box: Box, tables: Sequence[TableType]) -> Ends:
    if node.op in "bhqk":
        return 0, max(box["bhqk".index(node.op)] - 1, 0)
    match node.op, parts:
        case "number", _:
            return node.value, node.value
        case "look", _:
            return tables[node.value].ends or WHOLE
        case "int", _:
            return 0, 1
        case "where", [_, x, y]:
            return min(x[0], y[0]), max(x[1], y[1])
        case "neg", [(low, high)]:
            return -high, -low
        case "abs", [(low, high)]:
            return max(low, -high, 0), max(-low, high)
        case "not", [(low, high)]:
            return -1 - high, -1 - low
        case "add", [x, y]:
            return x[0] + y[0], x[1] + y[1]
        case "sub", [x, y]:
            return x[0] - y[1], x[1] - y[0]
        case "min", [x, y]:
            return min(x[0], y[0]), min(x[1], y[1])
        case "max", [x, y]:
            return max(x[0], y[0]), max(x[1], y[1])
        case "mul", [x, y]:
            return _corners(lambda a, b: a * b, x, y)
        case "floordiv", [x, y]:
            return _corners(lambda a, b: a // b, x, y) if y[0] > 0 or y[1] < 0 else WHOLE
        case "mod", [x, y]:
            return _of_mod(x, y)
        case "and" | "or" | "xor", [x, y]:
            return _of_bits(node.op, x, y)
    inside = of_bits(NARROW[node.op], node.op != "uint8")
    (low, high), = parts
    return (low, high) if inside[0] <= low and high <= inside[1] else inside


def _corners(function, x: Ends, y: Ends) -> Ends:
    found = [function(a, b) for a in x for b in y]
    return min(found), max(found)


def _of_mod(x: Ends, y: Ends) -> Ends:
    """A remainder has the divisor's sign."""
    if y[0] > 0:
        return (0, min(y[1] - 1, x[1])) if x[0] >= 0 else (0, y[1] - 1)
    return (y[0] + 1, 0) if y[1] < 0 else WHOLE


def _of_bits(op: str, x: Ends, y: Ends) -> Ends:
    bits = max(abs(one).bit_length() for one in (*x, *y))
    if min(x[0], y[0]) >= 0:
        return 0, min(x[1], y[1]) if op == "and" else (1 << bits) - 1
    return -(1 << bits), (1 << bits) - 1


def is_narrow(ends: Ends) -> bool:
    """True if 32 bits hold the numbers."""
    return -(1 << 31) <= ends[0] and ends[1] < 1 << 31


def depends_on(root: Node, names: str) -> bool:
    """True if an expression has one of these indices, or a table, where `names` has an f."""
    return any(node.op in names if len(node.op) == 1 else node.op == "look" and "f" in names for node in in_order(root))


def tables_of(root: Node) -> set[int]:
    """The numbers of the tables that an expression reads."""
    return {node.value for node in in_order(root) if node.op == "look"}


__all__ = ["Box", "Ends", "TableType", "depends_on", "is_narrow", "of_bits", "ranges", "tables_of"]
