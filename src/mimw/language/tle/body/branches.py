"""`scf.if_`: one side where all threads go one way; where they do not, both sides, each for its threads.

Input: a condition and the statements of the sides. Output: an `if` of our IR, or both sides under masks and a choice. For example:

    if_op = scf.IfOp(cond, [f32], hasElse=True)
    with ir.InsertionPoint(if_op.then_block): scf.yield_([x])           also: with scf.if_(cond, [f32]) as if_op: ..
    with ir.InsertionPoint(if_op.else_block): scf.yield_([y])           also: with scf.else_(if_op): ..
    if_op.result                                                        select, if the condition differs between threads
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from .dialect import op
from .regions import Block, InsertionPoint, Structured, around, recorded, run, yielded
from .threads import I1
from .types import Type
from .values import Number, Region


class If(Structured):
    """A branch. Where the condition is the same for all threads, an `if`; else both sides, each for its threads."""

    what = "scf.if_"

    def __init__(self, body, condition: Number, types: tuple[Type, ...], has_else: bool):
        super().__init__(body)
        self.condition, self.types, self.has_else = condition, types, has_else
        self.then_block, self.else_block = Block(self, "then"), Block(self, "else")
        self.sides: dict[str, tuple[Any, list[Number]]] = {}
        self.op = None

    def run(self, block: Block, statements: list[ast.stmt], assign: Callable[[tuple], None]) -> None:
        """Record one side, then first."""
        body, threads = self.walker, self.threads
        if block.role in self.sides:
            body.fail(f"the {block.role} side of this scf.if_ is there already")
        if block.role == "else" and "then" not in self.sides:
            body.fail("the else side of an scf.if_ stands behind its then side")
        if not self.condition.lanes:
            self._uniform(block.role, statements)
            return
        flags = self.condition if block.role == "then" else threads.inverse(self.condition)
        with threads.only(threads.both(threads.mask, flags)):
            region = run(body, statements, f"this scf.if_'s {block.role} side")
        self.sides[block.role] = (None, self._handed_on(region))
        if block.role == "else" or not self.types and self.types is not None:
            pairs = zip(self.sides["then"][1], self.sides.get("else", (None, []))[1])
            self._results = tuple(self._own(threads.select(self.condition, yes, no)) for yes, no in pairs)

    def _handed_on(self, region: Region) -> list[Number]:
        """The values that a side yields. Without declared types the then side determines their number and types."""
        if self.types is None:
            first = self.sides.get("then")
            self.types = tuple(value.type for value in (first[1] if first else region.yielded or ()))
        values = yielded(self.walker, region, len(self.types), "a side of this scf.if_")
        for value, type_ in zip(values, self.types):
            if value.type != type_:
                self.walker.fail(f"a side of this scf.if_ yields {value.type} where the op gives {type_}")
        return values

    def _own(self, value: Number) -> Number:
        return Number(value.tensor, value.type, self.region, value.pointee)

    def _uniform(self, role: str, statements: list[ast.stmt]) -> None:
        threads, builder, found = self.threads, self.threads.builder, []

        def record(_):
            region = run(self.walker, statements, f"this scf.if_'s {role} side")
            found.extend(self._handed_on(region))

        block = threads.detached([], record)
        self.sides[role] = (block, found)
        if role == "then":
            if self.types and self.has_else is not False:
                return                      # the types of the results are known with the other side
            if self.types:
                self.walker.fail("an scf.if_ that gives values needs an else side", "give hasElse=True and an else block")
            self.op = builder.create_if_op([], self.condition.handle, False)
            block.merge_block_before(self.op.get_then_block())
            self._results = ()
        elif self.op is not None:
            block.merge_block_before(self.op.get_else_block())
        else:
            self._join()

    def _join(self) -> None:
        """Make the op once both sides are there; where one side has a tile the other one spreads its number."""
        threads, builder = self.threads, self.threads.builder
        (then, yes), (other, no) = self.sides["then"], self.sides["else"]
        lanes = [a.lanes or b.lanes for a, b in zip(yes, no)]
        for block, values in ((then, yes), (other, no)):
            point = builder.get_insertion_point()
            builder.set_insertion_point_to_end(block)
            handles = [(threads.spread(value) if wide else value).handle for value, wide in zip(values, lanes)]
            builder.create_yield_op(handles)
            builder.restore_insertion_point(point)
        made = builder.create_if_op([recorded(threads, value.type, wide, value) for value, wide in zip(yes, lanes)],
                                    self.condition.handle, True)
        then.merge_block_before(made.get_then_block())
        other.merge_block_before(made.get_else_block())
        self._results = tuple(self._own(around(threads, handle, value, wide))
                              for handle, value, wide in zip(made.results, yes, lanes))

    def finish(self) -> None:
        if self.types and "else" not in self.sides:
            self.walker.fail("this scf.if_ gives values and has no else side", "add `with scf.else_(..):` or its else_block")


@op("scf", "if_", classes=("IfOp", ))
def if_(body, first, second=None, third=None, *, results_=None, results=None, hasElse=None, has_else=None):
    """A branch: `if_(condition)`, with the types of its results, in either order, if it gives any."""
    condition, types = (second, first) if isinstance(first, (list, tuple)) else (first, second)
    types = types if types is not None else results_ if results_ is not None else results
    types = None if types is None else tuple(types)
    threads = body.threads
    condition = threads.number(condition, I1, "scf.if_: the condition")
    if condition.type != I1:
        body.fail(f"scf.if_: the condition must be an i1, got {condition.type}")
    return body.open(If(body, condition, types, next((one for one in (third, hasElse, has_else) if one is not None), None)))


@op("scf", "else_", classes=())
def else_(body, if_op=None):
    """`with scf.else_(if_op):` the other side of a branch, by default of the last one."""
    if if_op is None:
        if_op = next((one for one in reversed(body.opened[-1]) if isinstance(one, If)), None)
    if not isinstance(if_op, If):
        body.fail("scf.else_ stands behind the `with` of its scf.if_")
    return InsertionPoint(if_op.else_block)
