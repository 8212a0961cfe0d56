"""Loops of `tle.dsa`: Triton's own loops, whose `for` op carries the author's options.

Input: `for i in tle.dsa.pipeline(..)` or `parallel(..)`. Output: the `for` op of a `tl.range`, with an attribute. For example:

    for i in tle.dsa.pipeline(0, n, num_stages=3):      for 0 n 1 .. tt.num_stages=3, dsa='pipeline'

Triton's generator takes `tl.range` itself and no subclass, so it visits the loop with the iterator's name replaced.
"""

from __future__ import annotations

import ast
import copy
from typing import Any

import triton.language as tl

from ...language.tle.dsa.loops import KINDS


class _Stock(ast.expr):
    """Stands in a loop's header where the author has named an iterator of ours: the visit gives `tl.range`."""


class DsaLoops:
    """Mixin over Triton's `CodeGenerator`."""

    def visit__Stock(self, node) -> Any:
        return tl.range

    def visit_For(self, node):
        kind = KINDS.get(self._iterator(node))
        if kind is not None:
            self.builder.uses_words = True
            node = _with_stock_iterator(node)
        self.builder.loop_kinds.append(kind)
        try:
            super().visit_For(node)
        finally:
            self.builder.loop_kinds.pop()

    def _iterator(self, node) -> type | None:
        found = self.visit(node.iter.func) if isinstance(node.iter, ast.Call) else None
        return found if isinstance(found, type) else None


def _with_stock_iterator(node: ast.For) -> ast.For:
    """The loop over `tl.range`; the same node each time, since facts about a loop are kept by its node."""
    if not hasattr(node, "stock"):
        node.stock = copy.copy(node)
        node.stock.iter = copy.copy(node.iter)
        node.stock.iter.func = ast.copy_location(_Stock(), node.iter.func)
    return node.stock
