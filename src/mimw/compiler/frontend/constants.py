"""Constants that a plain assignment keeps, and where they become run-time values after all.

Input: assignments, operators, loops and branches of a kernel. Output: names bound to constants or to scalars. For example:

    cid = tlx.async_task_replica_id()       compile-time, in each copy of the task
    bar = 9 + cid                           compile-time, as every operand is
    for i in range(n):
        bar += 2                            so `bar` was run-time before the loop already: what a loop or a branch that depends on
                                            data changes has no value at compile time

Triton makes scalars of all constants that are assigned plainly, so that loops may carry them; a kept one
(`language/kept.py`) becomes a scalar where a loop, or a run-time `if`, assigns its name.
"""

from __future__ import annotations

import ast

from ...errors import KernelError
from ...language.kept import KeptConstant
from ..triton_port.codegen import constexpr, triton_tuple
from .assigned import assigned

_NUMBERS = (bool, int)


class KeptConstants:
    """Mixin over Triton's `CodeGenerator`."""

    _at_run_time: frozenset[str] = frozenset()      # names that must be scalars where the generator is now

    def _sanitize_target_value(self, target, value, sanitize_leaf=True):
        if isinstance(target, ast.Name) and self._stays(target, value):
            return value
        if isinstance(target, ast.Tuple) and isinstance(value, triton_tuple) and len(target.elts) == len(value.values):
            kept = {index: one for index, (name, one) in enumerate(zip(target.elts, value.values)) if self._stays(name, one)}
            made = super()._sanitize_target_value(target, value, sanitize_leaf)
            return triton_tuple([kept.get(index, one) for index, one in enumerate(made.values)]) if kept else made
        return super()._sanitize_target_value(target, value, sanitize_leaf)

    def _stays(self, target, value) -> bool:
        return isinstance(value, KeptConstant) and isinstance(target, ast.Name) and target.id not in self._at_run_time

    # ---- what is computed from them ---------------------------------------------------------------------------------

    def _call_operator(self, node, owner, method_name, *others):
        found, result = super()._call_operator(node, owner, method_name, *others)
        kept = any(isinstance(operand, KeptConstant) for operand in (owner, *others))
        if kept and isinstance(result, constexpr) and isinstance(result.value, _NUMBERS):
            result = KeptConstant(result.value)
        return found, result

    def get_Attribute(self, lhs, attr):
        """Methods of scalars: `cid.to(tl.int64)`."""
        if isinstance(lhs, KeptConstant) and not hasattr(lhs.value, attr) and attr not in ("value", "type"):
            lhs = self.semantic.to_tensor(lhs)
        return super().get_Attribute(lhs, attr)

    # ---- where they become scalars ----------------------------------------------------------------------------------

    def visit_For(self, node):
        self._with_names_as_they_were(super().visit_For, node)

    def visit_While(self, node):
        try:
            self._with_names_as_they_were(super().visit_While, node)
        except AttributeError as error:
            if getattr(error, "name", None) != "handle" or not isinstance(getattr(error, "obj", None), constexpr):
                raise
            raise KernelError(f"the condition of this `while`, `{ast.unparse(node.test)}`, is a constant: the loop would never run "
                              "or never end.", self.builder.site,
                              hint="compare a value that the loop changes, as `while n < N`; of a constant make an `if`.") from None

    def _with_names_as_they_were(self, visit, node):
        before = self._at_run_time
        try:
            visit(node)
        finally:
            self._at_run_time = before

    def _find_carries(self, node, liveins, ignore=frozenset()):
        """Asked once the loop is known to be one at run time, where building goes on before it."""
        self._make_scalars(assigned([*node.body, *node.orelse]), liveins)
        return super()._find_carries(node, liveins, ignore)

    def visit_then_else_blocks(self, node, liveins, then_block, else_block):
        """A name that both branches assign gets its value from the `if`."""
        before = self._at_run_time
        then, otherwise = assigned(node.body), assigned(node.orelse)
        self._make_scalars(then | otherwise, liveins)
        self._at_run_time |= then & otherwise
        try:
            return super().visit_then_else_blocks(node, liveins, then_block, else_block)
        finally:
            self._at_run_time = before

    def _make_scalars(self, names: set[str], liveins: dict) -> None:
        """Constants under these names become scalars right here, and stay such within."""
        constant = {name for name in names if isinstance(liveins.get(name), KeptConstant)}
        for name in sorted(constant):
            liveins[name] = self.lscope[name] = self.semantic.to_tensor(liveins[name])
        self._at_run_time |= constant
