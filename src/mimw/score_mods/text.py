"""The text of a score_mod: one text for one expression, by which plans, caches and operators know it.

Input: an expression (nodes.py), or a text. Output: the other one. For example:

    shown(node)                                     "tanh(s / 30.0) * 30.0"
    parsed("x0 = tanh(s); x0 * x0")                 a node; what is used twice has a name
    parsed("where(k <= q, s + f0[h, q - k], -inf)") s is the score; b, h, q, k are indices; f0 is table 0, of floats

It has Python's grammar, and of that only what nodes.py has: nothing in a text is executed.
"""

from __future__ import annotations

import ast
from functools import lru_cache
from math import inf, isfinite, nan

import numpy as np

from ..errors import ScoreModError
from .nodes import FLOAT, INDICES, KINDS, SCORE, Node, in_order, lookup, make, number

_SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "mod": "%", "and": "&", "or": "|", "xor": "^",
          "lt": "<", "le": "<=", "eq": "==", "ne": "!="}
_BEFORE = {"neg": "-", "not": "~"}
_OPERATORS = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "floordiv", ast.Mod: "mod",
              ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor", ast.Lt: "lt", ast.LtE: "le", ast.Eq: "eq", ast.NotEq: "ne",
              ast.USub: "neg", ast.Invert: "not"}
_LETTERS = {kind: letter for letter, kind in KINDS.items()}
_NAMES = {"s": SCORE, "inf": number(inf), "nan": number(nan), **INDICES}
LONGEST = 20_000        # characters of a text


def shown(root: Node) -> str:
    """The text of an expression."""
    order = in_order(root)
    uses: dict[Node, int] = {}
    for node in order:
        for part in node.parts:
            uses[part] = uses.get(part, 0) + 1
    names: dict[Node, str] = {}
    lines = []
    for node in order:
        if node.parts and uses.get(node, 0) > 1:
            line = _shown(node, names)
            names[node] = f"x{len(names)}"
            lines.append(f"{names[node]} = {line}")
    return "; ".join([*lines, _shown(root, names)])


def _shown(root: Node, names: dict[Node, str]) -> str:
    """The text of a node, with names for parts that have one. Depth is bounded by `parsed` and by the tracer."""
    parts = [names.get(part) or _shown(part, names) for part in root.parts]
    if root.op == "number":
        return _number(root)
    if root.op == "look":
        return f"{_LETTERS[root.kind]}{root.value}[{', '.join(parts) or '()'}]"
    if root.op in _SIGNS:
        first, second = (_bracketed(part, text) for part, text in zip(root.parts, parts))
        return f"{first} {_SIGNS[root.op]} {second}"
    if root.op in _BEFORE:
        return f"{_BEFORE[root.op]}{_bracketed(*root.parts, *parts)}"
    return f"{root.op}({', '.join(parts)})" if parts else root.op


def _bracketed(part: Node, text: str) -> str:
    return f"({text})" if (part.op in _SIGNS or part.op in _BEFORE) and not text.isidentifier() else text


def _number(node: Node) -> str:
    if node.kind != FLOAT:
        return repr(node.value)
    return str(np.float32(node.value)) if isfinite(node.value) else repr(node.value)


@lru_cache(256)
def parsed(text: str) -> Node:
    """The expression of a text.

    errors:    ScoreModError for a text that is none, with what is wrong
    """
    if len(text) > LONGEST:
        raise ScoreModError(f"the text of a score_mod has {len(text)} characters, more than {LONGEST}")
    try:
        return _parsed(ast.parse(text).body)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        if isinstance(error, ScoreModError):
            raise
        raise ScoreModError(f"the text of a score_mod is no expression: {error}: {text[:200]!r}") from error


def _parsed(body: list[ast.stmt]) -> Node:
    names = dict(_NAMES)
    if not body or not isinstance(body[-1], ast.Expr):
        raise ScoreModError("the text of a score_mod does not end with a value")
    for line in body[:-1]:
        match line:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name not in _NAMES:
                names[name] = _read(value, names)
            case _:
                raise ScoreModError(f"the text of a score_mod has {ast.unparse(line)!r}, which gives no name to a value")
    return _read(body[-1].value, names)


def _read(tree: ast.expr, names: dict[str, Node]) -> Node:
    match tree:
        case ast.Constant(value=bool() | int() | float() as value):
            return number(value)
        case ast.Name(id=name) if name in names:
            return names[name]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return make(_OPERATORS[type(op)], _read(left, names), _read(right, names))
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _OPERATORS:
            return make(_OPERATORS[type(op)], _read(operand, names))
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _OPERATORS:
            return make(_OPERATORS[type(op)], _read(left, names), _read(right, names))
        case ast.Call(func=ast.Name(id=name), args=given, keywords=[]) if name not in _OPERATORS.values():
            return make(name, *(_read(one, names) for one in given))
        case ast.Subscript(value=ast.Name(id=table), slice=index) if table[:1] in KINDS and table[1:].isdecimal():
            indices = index.elts if isinstance(index, ast.Tuple) else [index]
            return lookup(table[0], int(table[1:]), tuple(_read(one, names) for one in indices))
    raise ScoreModError(f"the text of a score_mod has {ast.unparse(tree)!r}, which there is not")


__all__ = ["parsed", "shown"]
