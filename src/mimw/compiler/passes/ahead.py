"""Loads for a later trip of a loop, computed early: the copies that can run ahead, and the ops that compute their addresses.

Input: a `for` op and copies in its body. Output: the reason for which a copy has to stay in place, or the `Ahead` of the
others. For example:

    for %i, (%p): dsa_load (addptr %p, %i), %a, ..;  %q = addptr %p, %n;  yield %q
    run_ahead(uses, loop, copies)       ops: addptr %p, %i and addptr %p, %n; carried: %p, whose next value is %q
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ...ir import Builder, Op, Value
from ...ir.extents import padded
from ...ir.flow import bounds
from ...target import Target
from ..analysis.uses import Uses


@dataclass(frozen=True)
class Ahead:
    """Pure ops of a loop's body, in order, that compute addresses and the next values of the carried values in them:
    `carried` maps each such argument of the body to the value that the body yields for it."""

    ops: tuple[Op, ...]
    carried: dict[Value, Value]

    def values(self, writer: Builder, env: dict[Value, Value]) -> dict[Value, Value]:
        """The ops once more, for the trip whose arguments are in `env`, without those whose results are there as well; returns the
        new values, by the values of the loop."""
        found = dict(env)
        for op in self.ops:
            if op.result in found:
                continue
            args = replaced(op.args, found, writer)
            made = writer.emit(op.name, args, op.site, label=op.result.name, **op.attrs)
            found[op.result] = made
        return found

    def next(self, writer: Builder, env: dict[Value, Value]) -> dict[Value, Value]:
        """The carried arguments of the trip after that."""
        found = self.values(writer, env)
        return {arg: replaced(given, found, writer) for arg, given in self.carried.items()}


def replaced(arg, found: dict[Value, Value], writer: Builder):
    """An argument of an op with the values of `found` in place of the loop's."""
    if isinstance(arg, tuple):
        return tuple(replaced(item, found, writer) for item in arg)
    if not isinstance(arg, Value):
        return arg
    return found[arg] if arg in found else writer.now(arg)


class _Slice:
    """The ops in a loop's body that some values are computed from."""

    def __init__(self, uses: Uses, loop: Op):
        self.uses, self.body = uses, loop.blocks[0]
        self.inside = {result for op in loop.walk() for result in op.results} - set(loop.results)
        self.ops: set[Op] = set()
        self.carried: dict[Value, Value] = {}
        self.problem: Op | None = None

    def add(self, value: Value) -> None:
        left = [value]
        while left:
            value = left.pop()
            if value in self.body.args[1:]:
                if value not in self.carried:
                    self.carried[value] = self.body.yielded[self.body.args.index(value) - 1]
                    left.append(self.carried[value])
            elif value in self.inside:
                op = self.uses.definition[value]
                if op is None or "pure" not in op.row.effects or op.blocks or len(op.results) != 1 or self._may_fail(op):
                    self.problem = self.problem or op or self.uses.argument[value].parent
                    return
                if op not in self.ops:
                    self.ops.add(op)
                    left += op.operands

    def _may_fail(self, op: Op) -> bool:
        """True for an op that is undefined for some operands, which a trip behind the last one may have: elements picked by
        number, and a divisor that changes in the loop."""
        if op.row.cost != "division":
            return bool(op.row.traits & {"dsa", "collective"})
        divisor = op.rhs
        while (made := self.uses.definition.get(divisor)) is not None and made.name == "splat":
            divisor = made.value
        return divisor in (*self.body.args, *self.inside) and (made is None or made.name != "constant")

    def found(self) -> Ahead:
        order = self.uses.position.__getitem__
        carried = {arg: given for arg, given in sorted(self.carried.items(), key=lambda one: self.body.args.index(one[0]))}
        return Ahead(tuple(sorted(self.ops, key=order)), carried)


def run_ahead(uses: Uses, loop: Op, copies: list[Op]) -> Ahead:
    """The ops and carried values that compute the addresses of these copies."""
    return _slice(uses, loop, (value for copy in copies for value in _addresses(copy))).found()


def computed_ahead(uses: Uses, loop: Op, values: Iterable[Value]) -> Ahead | Op:
    """The ops and carried values that compute these values of a loop's body, also for a trip behind the last one; or the first op
    in the way: one with an effect, or one that is undefined for some operands."""
    found = _slice(uses, loop, values)
    return found.problem or found.found()


def _slice(uses: Uses, loop: Op, values: Iterable[Value]) -> _Slice:
    found = _Slice(uses, loop)
    for value in values:
        found.add(value)
    return found


def _addresses(copy: Op) -> tuple[Value, ...]:
    return tuple(value for value in (copy.pointer, *copy.extents) if isinstance(value, Value))


def why_in_order(uses: Uses, loop: Op, copy: Op, target: Target) -> str:
    """The reason for which a copy of a loop's body cannot run ahead of its trip; "" if the copy can."""
    if target.binary and target.assembly != "ptx":
        return f"{target} has no asynchronous copies here"
    if target.binary and getattr(copy.pointer.type, "shape", None) != padded(copy.buffer.type.shape):
        return f"the pointers of the copy at line {copy.site.line} are not a tile of the buffer's shape"
    if any(bound in _made(loop) for bound in bounds(loop)):
        return "its bounds change in the loop"
    for op in loop.walk():
        if op is not loop and _has_a_place(op):
            return f"{op.row.word} at line {op.site.line} keeps its place among the loop's copies"
    found = _slice(uses, loop, _addresses(copy))
    if found.problem is not None:
        return (f"where the copy at line {copy.site.line} reads follows from {found.problem.row.word} at line "
                f"{found.problem.site.line}, which cannot be done a trip early")
    for store in filter(_stores, loop.walk()):
        before = uses.position[store] < uses.position[copy]
        if before:
            return (f"{store.row.word} at line {store.site.line} stores before the copy at line {copy.site.line} loads, in the "
                    "same trip")
        promised = copy.attrs.get("inter_no_alias") or store.attrs.get("inter_no_alias") or loop.attrs["dsa"] == "parallel"
        if not promised:
            return (f"{store.row.word} at line {store.site.line} may store what the copy at line {copy.site.line} loads in the "
                    "next trip; inter_no_alias=True says that it does not")
    return ""


def _made(loop: Op) -> set[Value]:
    return {result for op in loop.walk() if op is not loop for result in op.results}


def _has_a_place(op: Op) -> bool:
    """True for an op whose effect other tasks may see, or that waits: no copy passes it."""
    return bool(op.row.effects & {"sync", "async"} or op.row.releases or "atomic" in op.row.traits)


def _stores(op: Op) -> bool:
    """True if an op may write global memory."""
    touches = dict(op.row.touches)
    outside = any(access.endswith("write") for operand, access in touches.items() if operand not in op.row.writes)
    return outside or "write" in op.row.effects and not touches and not op.row.allocates and not op.row.mentions


