"""Early returns become structured `if`s.

Input: a function's body with a `return` in an `if`. Output: one `if` op that gives the function's value. For example:

    if c: return a                  recorded as         if c: a
    rest                                                else: rest

So the IR has no branches, a helper with returns can be inlined anywhere, and one `if` op gives the function's value.
Statements after an `if` that may return are recorded once per branch that falls through.
"""

from __future__ import annotations

import ast

from ..triton_port.codegen import (
    base_value,
    constexpr,
    enter_sub_region,
    flatten_values_to_ir,
    unflatten_ir_values,
    unwrap_constexpr,
)

_STATEMENTS = ("body", "orelse", "handlers", "finalbody", "cases")  # where a statement holds others; no expression holds a `return`


def contains_return(node: ast.AST) -> bool:
    """True if a `return` stands anywhere below `node`."""
    left = [node]
    while left:
        one = left.pop()
        if isinstance(one, ast.Return):
            return True
        for name in _STATEMENTS:
            held = getattr(one, name, None)
            if isinstance(held, list):  # of an expression such as a lambda it is none
                left += held
    return False


class StructuredReturns:
    """Mixin over Triton's `CodeGenerator`. The value of a function is in `self.return_vals` when its body has been visited."""

    _rest: dict[int, list] = {}

    def visit_compound_statement(self, stmts):
        stmts = stmts if isinstance(stmts, list) else list(stmts) if isinstance(stmts, tuple) else [stmts]
        for index, stmt in enumerate(stmts):
            if isinstance(stmt, ast.If) and contains_return(stmt):
                self._rest = {**self._rest, id(stmt): stmts[index + 1:]}
                self.visit(stmt)
                return
            self.visit(stmt)
            if isinstance(stmt, ast.Return):
                return

    def visit_If(self, node):
        if not contains_return(node):
            return super().visit_If(node)
        rest = self._rest.get(id(node), [])
        condition = self.visit(node.test)
        if not isinstance(condition, base_value) or isinstance(condition, constexpr):
            taken = node.body if unwrap_constexpr(condition) else node.orelse
            return self.visit_compound_statement([*taken, *rest])
        if self.scf_stack:
            raise self._unsupported(node, "Cannot have `return` statements inside `while` or `for` statements in triton.")
        self._branch_and_return(self._as_condition(node, condition), [*node.body, *rest], [*node.orelse, *rest])

    def _as_condition(self, node, condition):
        import triton.language as tl
        if condition.type.is_block() and condition.type.numel != 1:
            raise self._unsupported(node, "Boolean value of Tensor with more than one value is ambiguous")
        return condition.to(tl.int1, _semantic=self.semantic)

    def _branch_and_return(self, condition, *branches):
        with enter_sub_region(self) as (liveins, _):
            point, location = self._get_insertion_point_and_loc()
            entries, ends, values = [], [], []
            for statements in branches:
                entries.append(self.builder.create_block())
                self.builder.set_insertion_point_to_start(entries[-1])
                self.lscope, self.local_defs, self.return_vals = liveins.copy(), {}, []
                self.visit_compound_statement(statements)
                ends.append(self._get_insertion_point_and_loc())
                values.append(self.return_vals[-1] if self.return_vals else constexpr(None))
            self.return_vals, self.return_ips = values, ends
            type_ = self.decide_return_type()
            handles = []
            for value, end in zip(values, ends):
                self._set_insertion_point_and_loc(*end)
                handles.append(flatten_values_to_ir([self.cast_to(value, type_)]))
            self._set_insertion_point_and_loc(point, location)
            op = self.builder.create_if_op([handle.get_type() for handle in handles[0]], condition.handle, True)
            for entry, block, yielded in zip(entries, (op.get_then_block(), op.get_else_block()), handles):
                entry.merge_block_before(block)
                self.builder.set_insertion_point_to_end(block)
                if yielded:
                    self.builder.create_yield_op(yielded)
        results = [op.get_result(i) for i in range(len(handles[0]))]
        self.return_vals = [next(unflatten_ir_values(results, [type_]))]
        self.return_ips = [None]

    def visit_Return(self, node):
        value = self.visit(node.value)
        self.return_vals = [constexpr(None) if value is None else value]
        self.return_ips = [None]
