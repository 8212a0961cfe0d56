"""Registry of layout rules.

Input: a function and the names of the rules that it implements, as rows of the op table name them (`layout`, or `rule` for a
special case). Output: `RULES`; `rule_of(op)` is the function for an op:

    @rule("free")
    def free(op, tiles): ...        the rule of `make_range`, whose row says "free"
"""

from __future__ import annotations

from collections.abc import Callable

from ....ir.core import Op
from ..tiles import Tiles

Rule = Callable[[Op, Tiles], None]

RULES: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register a function for rule names of the op table."""

    def register(function: Rule) -> Rule:
        for name in names:
            RULES[name] = function
        return function

    return register


def rule_of(op: Op) -> Rule:
    """The rule of an op."""
    return RULES[op.row.rule or op.row.layout]
