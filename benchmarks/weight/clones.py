"""Pairs of functions that share a stretch of code, names aside.

    clone_pairs(functions)          [(one, other), ...]

Input: functions. Output: each pair in which RUN statements, one after the other, are equal when the names of values and functions
are left out: the same operators, attributes, keywords and constants in the same order. A statement with a body counts with its
head, and its body follows; docstrings do not count. (Of RUN = 5 there were 44 pairs when this was written, of 6 there were 14.)
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from itertools import combinations

from .sources import Function

RUN = 5
_BODIES = ("body", "orelse", "finalbody")
_LEFT_OUT = {*_BODIES, "handlers", "cases", "ctx", "kind", "type_comment", "lineno"}


def clone_pairs(functions: Iterable[Function]) -> list[tuple[Function, Function]]:
    """The pairs in the order of their places."""
    runs: dict[tuple[str, ...], dict[str, Function]] = {}
    for function in functions:
        shapes = _statements(function.node.body)
        for at in range(len(shapes) - RUN + 1):
            runs.setdefault(tuple(shapes[at:at + RUN]), {})[function.place] = function
    found = {(one.place, other.place): (one, other)
             for sharing in runs.values() for one, other in combinations(sorted(sharing.values(), key=lambda one: one.place), 2)}
    return [found[places] for places in sorted(found)]


def _statements(body: list[ast.stmt]) -> list[str]:
    shapes = []
    for statement in body:
        if isinstance(statement, ast.Expr) and isinstance(getattr(statement.value, "value", None), str):
            continue
        shapes.append(_shape(statement))
        for name in _BODIES:
            shapes += _statements(getattr(statement, name, []))
    return shapes


def _shape(node) -> str:
    """The tree of a statement's head as text, with _ for each name."""
    if isinstance(node, ast.Name | ast.arg):
        return "_"
    if isinstance(node, ast.AST):
        fields = [(name, value) for name, value in ast.iter_fields(node) if name not in _LEFT_OUT or isinstance(value, ast.expr)]
        return f"{type(node).__name__}({','.join('_' if name == 'name' else _shape(value) for name, value in fields)})"
    return f"[{','.join(map(_shape, node))}]" if isinstance(node, list) else repr(node)
