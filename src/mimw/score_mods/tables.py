"""The tensors that a score_mod reads, as kernels take them.

Input: an expression and tensors. Output: their types for `ranges`, and tuples for a launch. For example:

    types_of(parsed("s + f0[h, q - k + 7]"), [bias])            [TableType((8, 1023))]
    for_launch([bias])                                          (Table(bias, (8, 1023)),)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ..errors import ScoreModError
from .nodes import BOOL, FLOAT, INT, Node, in_order
from .ranges import Ends, TableType, of_bits

MOST = 4                # tensors of a score_mod, as the operator's schema has them
MOST_ELEMENTS = (1 << 31) - 1
FLOATS = torch.float32, torch.bfloat16, torch.float16
WHOLE: dict[torch.dtype, Ends] = {torch.int64: of_bits(64), torch.int32: of_bits(32), torch.int16: of_bits(16),
                                  torch.int8: of_bits(8), torch.uint8: of_bits(8, signed=False)}
LETTERS = {**dict.fromkeys(FLOATS, "f"), **dict.fromkeys(WHOLE, "i"), torch.bool: "b"}
_WORDS = {FLOAT: "floats", INT: "whole numbers", BOOL: "truth values"}
_KINDS = {"f": FLOAT, "i": INT, "b": BOOL}


class Table(NamedTuple):
    """A table of a launch: its elements, one behind the other, and its extents."""

    data: Tensor
    extents: tuple[int, ...]


def types_of(root: Node, tables: Sequence[Tensor]) -> list[TableType]:
    """Extents and bounds of the tables of an expression.

    errors:    ScoreModError where they are not what the expression reads: their number, dimensions or types
    """
    used = {}
    for node in in_order(root):
        if node.op == "look":
            used.setdefault(node.value, []).append(node)
    if set(used) != set(range(len(tables))):
        raise ScoreModError(f"the score_mod reads tables {sorted(used)}, and {len(tables)} are given")
    return [_type(number, used[number], table) for number, table in enumerate(tables)]


def _type(number: int, nodes: list[Node], table: Tensor) -> TableType:
    letter = LETTERS.get(table.dtype)
    if letter is None:
        raise ScoreModError(f"table {number} of the score_mod is {table.dtype}; it may be float32, bfloat16, float16, bool, uint8, "
                            "int8, int16, int32 or int64")
    if table.numel() > MOST_ELEMENTS or 0 in table.shape:
        raise ScoreModError(f"table {number} of the score_mod is {tuple(table.shape)}; it may have 1 to {MOST_ELEMENTS} elements")
    for node in nodes:
        if len(node.parts) != table.dim() or _KINDS[letter] != node.kind:
            raise ScoreModError(f"the score_mod reads {_WORDS[node.kind]} of table {number} by {len(node.parts)} indices, and the "
                                f"tensor is {table.dtype} {tuple(table.shape)}")
    return TableType(tuple(table.shape), WHOLE.get(table.dtype))


def plain(table: Tensor) -> Tensor:
    """The elements as a kernel reads them: one behind the other, truth values as bytes."""
    table = table.detach().contiguous()
    return table.view(torch.uint8) if table.dtype is torch.bool else table


def for_launch(tables: Sequence[Tensor]) -> tuple[Table, ...]:
    """The tables of a launch; those that are to come have the same shapes and types."""
    return tuple(Table(plain(table), tuple(table.shape)) for table in tables)


__all__ = ["LETTERS", "MOST", "Table", "TableType", "for_launch", "plain", "types_of"]
