"""What some ops of a kernel take: a slice, with the control flow around it, which a task of its own could run.

Input: a program, and the ops for which a task is to be made. Output: the ops and the values that this task needs, or the first
op that may not be done twice. For example, of a loop that loads a tile, multiplies, and stores behind the loop:

    loads = Slice(program); loads.add(load)         the loop, the load, and the arithmetic of its address
    loads.bad                                       None; an atomic, if the address takes what it gives

Ops without effects may be done twice, in two tasks. So may ordinary loads, from arrays that the kernel does not write. `cut`
are ops that another task does: what they take is not followed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from ...ir import Op, Program, Value
from ...ir.flow import loop_carries, terminator
from .uses import uses_of


class Slice:
    """Ops and block arguments that roots need; grows by `add`."""

    def __init__(self, program: Program, cut: Collection[Op] = (), reads: Callable[[Op], bool] = lambda load: True,
                 given: Collection[Value] = ()):
        """`reads` says of an ordinary load whether a second task may do it as well; `given` are values that another task makes:
        `taken` has those of them that this one needs."""
        self.uses, self.cut, self.reads = uses_of(program), frozenset(cut), reads
        self.given, self.taken = frozenset(given), set()
        self.ops: set[Op] = set()
        self.roots: set[Op] = set()
        self.values: set[Value] = set()     # block arguments, and results of ops with regions
        self.bad: Op | None = None

    def add(self, op: Op) -> None:
        """An op that this task is to do, whatever its effects."""
        self._op(op, root=True)

    def take(self, value: Value) -> None:
        """A value that this task is to compute."""
        self._value(value)

    def around(self, op: Op) -> None:
        """The loops and branches around an op, and what decides how often they run."""
        for parent in self.uses.parents(op):
            self._around(parent)

    def may_repeat(self, op: Op) -> bool:
        """True of an op that two tasks may do, each for itself."""
        return "pure" in op.row.effects or bool(op.row.hands_on) or op.name == "make_tensor_descriptor" or \
            op.row.loads and not getattr(op, "is_volatile", False) and self.reads(op)

    def _op(self, op: Op, root: bool = False) -> None:
        if op in self.roots and not root and not self.may_repeat(op):
            self.bad = self.bad or op       # what a root gives comes round to it
        if op in self.ops and (not root or op in self.roots or self.may_repeat(op)):
            return
        self.ops.add(op)        # one that may not be done twice is followed as a root alone, whenever that comes
        self.roots.update((op, ) if root else ())
        for parent in self.uses.parents(op):
            self._around(parent)
        if op in self.cut:
            return
        if not root and not self.may_repeat(op):
            self.bad = self.bad or op
            return
        if op.blocks and not op.row.hands_on:       # a reduction or a scan: whole, with what its block takes from outside
            self.ops.update(op.walk())
            for inner in op.walk():
                for value in inner.operands:
                    if self.uses.definition.get(value) not in self.ops:
                        self._value(value)
        if not op.blocks or not op.row.hands_on:
            for value in op.operands:
                self._value(value)

    def _around(self, parent: Op) -> None:
        """A loop or branch that stands around an op of the slice, with what decides how often it runs."""
        if parent in self.ops:
            return
        self.ops.add(parent)
        for outer in self.uses.parents(parent):
            self._around(outer)
        if parent.name == "for":
            for value in (parent.start, parent.end, parent.step):
                self._value(value)
        elif parent.name == "if":
            self._value(parent.condition)
        elif parent.name == "while":
            self._value(terminator(parent.blocks[0]).condition)
        elif not parent.row.hands_on and not self.may_repeat(parent):
            self.bad = self.bad or parent

    def _value(self, value: Value) -> None:
        if value in self.given:
            self.taken.add(value)
            return
        op = self.uses.definition.get(value)
        if op is None:
            place = self.uses.argument.get(value)
            if place is not None and value not in self.values:
                self.values.add(value)
                self._around(place.parent)
                if place.parent.row.hands_on:
                    self._carried(place.parent, value)
        elif not op.row.hands_on:
            self._op(op)
        elif value not in self.values:
            self.values.add(value)
            self._around(op)
            if op.name == "if":
                at = op.results.index(value)
                for block in op.blocks:
                    self._value(block.yielded[at])
            else:
                self._carried(op, value)

    def _carried(self, loop: Op, value: Value) -> None:
        """Follow the values that go round a loop at the place of this one; all of those that go round a `while`."""
        if loop.name == "for":
            for one in loop_carries(loop):
                if value is one.argument or value is one.result:
                    self.values.update((one.argument, one.result))
                    self._value(one.init)
                    self._value(one.after)
            return
        for group in (loop.blocks[0].args, loop.blocks[1].args, loop.results):
            self.values.update(group)
        for one in (*loop.inits, *terminator(loop.blocks[0]).values, *loop.blocks[1].yielded):
            self._value(one)
