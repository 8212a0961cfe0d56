"""Where rules register themselves."""

from __future__ import annotations

from collections.abc import Callable

from ...ir.core import Op
from ..tiles import Tiles

Rule = Callable[[Op, Tiles], None]

RULES: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register a function for rule names of the op table, or for ops by their names."""

    def register(function: Rule) -> Rule:
        for name in names:
            RULES[name] = function
        return function

    return register
