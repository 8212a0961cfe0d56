"""The names that statements assign, found once for each statement.

Input: statements of a syntax tree, which must not change. Output: names. For example:

    for i in range(n):
        if WIDE: acc += x           assigned(loop.body) is {"acc"}, whatever WIDE is
        for j in range(i): pass     and {"acc", "j"} with this line
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import lru_cache


def assigned(statements: Iterable[ast.stmt]) -> frozenset[str]:
    """The names that the statements assign, and those inside them; names annotated as constexpr are Triton's to refuse."""
    return frozenset().union(*map(_assigned, statements))


@lru_cache(maxsize=8192)
def _assigned(statement: ast.stmt) -> frozenset[str]:
    """Kept by statement: of nested loops each statement is looked at once, not once for each loop around it."""
    found, left = set(), list(ast.iter_child_nodes(statement))
    while left:
        node = left.pop()
        if isinstance(node, ast.stmt):
            found |= _assigned(node)
        elif isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Store):
                found.add(node.id)
        else:
            left += ast.iter_child_nodes(node)
    return frozenset(found)
