"""The Python text of a score_mod's functions for kernels.

Input: an expression, the extents of a call, and its tables' extents and types. Output: a module's text with two functions. For
example, of "where(k <= q, s * 2.0, -inf)":

    def score_mod(score, batch, head, query, key, tables, HOPPER):      the score that takes the place of `score`
    def gradient(score, batch, head, query, key, tables, HOPPER):       (that score, its derivative with respect to `score`)

Indices are whole numbers or tiles of them that broadcast to the score's shape, either way round. HOPPER is True in kernels for that
chip (words.py, `near`). Whole numbers have 32 bits where
that is enough for the call's extents. Where an index may be beyond its table, and is, the score becomes NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

import numpy as np

from ..errors import ScoreModError
from .derive import derivative
from .nodes import BOOL, FLOAT, INT, NARROW, Node, in_order
from .ranges import Box, TableType, depends_on, is_narrow, ranges
from .text import shown

_SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "and": "&", "or": "|", "xor": "^", "lt": "<", "le": "<=", "eq": "==",
          "ne": "!=", "floordiv": "//", "mod": "%"}
_CALLS = {"exp": "tl.exp", "exp2": "tl.exp2", "log": "tl.log", "log2": "tl.log2", "sqrt": "tl.sqrt", "rsqrt": "tl.rsqrt",
          "sin": "tl.sin", "cos": "tl.cos", "abs": "tl.abs", "where": "tl.where", "tanh": "tanh", "sigmoid": "sigmoid"}
_INDICES = {"b": "batch", "h": "head", "q": "query", "k": "key", "s": "score"}
_HEAD = '''"""A score_mod of attention, written by mimw.score_mods of its text, and its derivative:

    {text}
"""

import triton.language as tl

import mimw
from mimw.score_mods.words import floordiv, inside, larger, mod, near, nonzero, placed, sigmoid, smaller, tanh


@mimw.jit
def score_mod(score, batch, head, query, key, tables, HOPPER: tl.constexpr):
    """The score that takes the place of `score`."""
{value}


@mimw.jit
def gradient(score, batch, head, query, key, tables, HOPPER: tl.constexpr):
    """(that score, its derivative)."""
{both}
'''


def written(root: Node, box: Box, tables: Sequence[TableType]) -> str:
    """The module's text.

    errors:    ScoreModError for an expression that is no float, or divides by whole numbers that may be 0
    """
    if root.kind != FLOAT:
        raise ScoreModError(f"a score_mod gives a score, which is a float, not {root.kind}")
    slope = derivative(root)
    value, both = (_Body(roots, box, tables).text for roots in ([root], [root, slope]))
    return _HEAD.format(text=shown(root), value=value, both=both)


class _Body:
    """The lines of a function that gives the values of `roots`, the first of them a score."""

    def __init__(self, roots: list[Node], box: Box, tables: Sequence[TableType]):
        self.tables, self.ends, self.poisons = tables, ranges(roots, box, tables), []
        self.names: dict[Node, str] = {}
        self.lines = ["batch, head = batch.to(tl.int32), head.to(tl.int32)"]
        for node in in_order(*roots):
            self._add(node)
        first, *more = (self.names[root] for root in roots)
        if not depends_on(roots[0], "s"):
            first = f"{first} + tl.zeros_like(score)"
        if self.poisons:
            first = f'tl.where({" & ".join(self.poisons)}, {first}, float("nan"))'
        self.lines.append(f"return {', '.join([first, *more])}")
        self.text = "\n".join(f"    {line}" for line in self.lines)

    def _add(self, node: Node) -> None:
        """The node's name; a number is its own."""
        if node.op == "number":
            self.names[node] = _literal(node)
        elif not node.parts and node.op != "look":
            self.names[node] = _INDICES[node.op]
        else:
            text = self._read(node) if node.op == "look" else self._text(node)
            self.names[node] = f"x{len(self.lines)}"
            self.lines.append(f"{self.names[node]} = {text}")

    def _text(self, node: Node) -> str:
        wide = any(one.kind == INT and not is_narrow(self.ends[one]) for one in (node, *node.parts))
        parts = [self._as(part, wide) for part in node.parts]
        if node.op in NARROW:
            return self._narrowed(node, *parts)
        if node.op in ("floordiv", "mod"):
            return self._divided(node, *parts)
        if node.op in ("min", "max"):
            names = {"min": ("smaller", "tl.minimum"), "max": ("larger", "tl.maximum")}[node.op]
            return f"{names[node.kind == INT]}({', '.join(parts)})"
        if node.op in _SIGNS:
            return f" {_SIGNS[node.op]} ".join(parts)
        if node.op in ("float", "int"):
            (part, ) = node.parts
            one, zero, type_ = ("1.0", "0.0", "float32") if node.op == "float" else ("1", "0", "int32")
            return f"tl.where({parts[0]}, {one}, {zero})" if part.kind == BOOL else f"{parts[0]}.to(tl.{type_})"
        if node.op in ("neg", "not"):
            return f"{'-' if node.op == 'neg' else '~'}{parts[0]}"
        return f"{_CALLS[node.op]}({', '.join(parts)})"

    def _as(self, node: Node, wide: bool) -> str:
        """The name of a part, of 64 bits where the operation has these."""
        name = self.names[node]
        return f"{name}.to(tl.int64)" if wide and node.kind == INT and node.op != "number" and is_narrow(self.ends[node]) else name

    def _narrowed(self, node: Node, part: str) -> str:
        if self.ends[node] == self.ends[node.parts[0]]:     # all of its bits are kept
            return part
        return f"{part}.to(tl.{node.op}).to(tl.int32)"

    def _divided(self, node: Node, first: str, second: str) -> str:
        low, high = self.ends[node.parts[1]]
        if low <= 0 <= high:
            raise ScoreModError(f"a score_mod divides by a whole number that may be 0, in {shown(node)}")
        if node.parts[1].op != "number":
            second = f"nonzero({second})"
        if low > 0 and self.ends[node.parts[0]][0] >= 0:
            return f"{first} {_SIGNS[node.op]} {second}"
        return f"{node.op}({first}, {second})"

    def _read(self, node: Node) -> str:
        """A load of an element. Behind the last query or key, where a tile has more, nothing is read."""
        table = self.tables[node.value]
        at, there = [], []
        for number_, (part, extent) in enumerate(zip(node.parts, table.extents, strict=True)):
            size, (low, high), name = f"tables[{node.value}].extents[{number_}]", self.ends[part], self.names[part]
            if low < 0:
                name = self._line(f"placed({name}, {size})")
            certain = -extent <= low and high < extent
            if not certain or depends_on(part, "qkf"):
                there.append(self._line(f"inside({name}, {size})"))
                if not certain:
                    self.poisons.append(there[-1])
            if not is_narrow((low, high)):
                name = f"{name}.to(tl.int32)"
            at.append(f"({at.pop()}) * {size} + {name}" if at else name)
        place = f"tables[{node.value}].data + {f'({at[0]})' if at else 0}"
        mask = f", mask={' & '.join(there)}, other=0" if there else ""
        type_ = "float32" if node.kind == FLOAT else "int32" if node.kind == BOOL or is_narrow(self.ends[node]) else "int64"
        load = f"tl.load({place}{mask}).to(tl.{type_})"
        if depends_on(node, "qk"):
            load = f"near({self._line(load)}, score, HOPPER)"
        return f"{self._line(load)} != 0" if node.kind == BOOL else load

    def _line(self, text: str) -> str:
        name = f"x{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        return name


def _literal(node: Node) -> str:
    if node.kind != FLOAT:
        return f"({node.value})" if node.kind == INT and node.value < 0 else repr(node.value)
    if not isfinite(node.value):
        return f'float("{node.value}")'
    text = str(np.float32(node.value))
    return f"({text})" if node.value < 0 else text


__all__ = ["written"]
