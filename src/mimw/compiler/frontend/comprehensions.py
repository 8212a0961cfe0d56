"""List comprehensions over constants: a tuple of values, each element recorded where the comprehension stands.

Input: a comprehension. Output: Triton's tuple. For example:

    sums = [tl.zeros((64, 64), tl.float32) for _ in range(N)]        N tiles, as (tl.zeros(..), tl.zeros(..)) for N = 2
    ids = [9 + i for i in range(2) if i != SKIP]                     `i` is a constexpr

Triton's generator takes comprehensions over tuples only.
"""

from __future__ import annotations

import ast

from ...errors import KernelError
from ..triton_port.codegen import base_value, constant_range, constexpr, triton_tuple, unwrap_constexpr


class Comprehensions:
    """Mixin over Triton's `CodeGenerator`."""

    def visit_ListComp(self, node: ast.ListComp):
        """The name of the comprehension has its own value only in it, as in Python."""
        if len(node.generators) != 1:
            raise self._unsupported(node, "a comprehension with two `for`s is not supported in kernels; put one into the other's "
                                          "element")
        (comprehension, ) = node.generators
        names = {one.id for one in ast.walk(comprehension.target) if isinstance(one, ast.Name)}
        held = {name: self.lscope[name] for name in names if name in self.lscope}
        results = []
        for item in self._items(comprehension.iter):
            self._bind(comprehension.target, item)
            if all(unwrap_constexpr(self.visit(condition)) for condition in comprehension.ifs):
                results.append(self.visit(node.elt))
        for name in names:
            self.lscope.pop(name, None)
            self.local_defs.pop(name, None)
        self.lscope.update(held)
        return triton_tuple(results)

    def _items(self, node):
        """The elements that the comprehension goes through: of a tuple, or the constants of a range."""
        if isinstance(node, ast.Call) and self.visit(node.func) is range:
            bounds = [unwrap_constexpr(self.visit(bound)) for bound in node.args]
            numbers = range(*bounds) if all(isinstance(bound, int) for bound in bounds) else None
        else:
            iterated = unwrap_constexpr(self.visit(node))
            if isinstance(iterated, triton_tuple):
                return iterated.values
            numbers = constant_range(iterated)
        if numbers is None:
            raise self._not_constant(node)
        self.builder.uses_words = True      # Triton's own path refuses all but tuples
        return [constexpr(number) for number in numbers]

    def _not_constant(self, node) -> KernelError:
        return KernelError(f"a list comprehension goes through a tuple or a range of constants, and `{ast.unparse(node)}` is "
                           "neither", self.builder.site, hint="make the bound a tl.constexpr, or write a loop")

    def _bind(self, target, item) -> None:
        if isinstance(target, ast.Tuple):
            item = self._sanitize_target_value(target, item, sanitize_leaf=False)
        elif not isinstance(item, base_value):
            item = constexpr(item)
        self.assignTarget(target, item)
