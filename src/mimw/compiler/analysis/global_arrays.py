"""Provenance of global pointers: the kernel's parameters from which a pointer comes.

Input: a program and one of its pointers, or tiles of them. Output: the parameters. For example:

    there = tlx.peer_pointer(x, peer, world)
    tl.store(there + at, tile)              GlobalArrays(program).behind(pointer) is {x}: a peer's part of x counts as x

Pointers are followed through arithmetic and control flow; one that is made of a number, or loaded, comes from no parameter.
"""

from __future__ import annotations

from ...ir import Pointer, Program, Value
from ...ir.types import element_of
from .flows import Flows


class GlobalArrays:
    """The parameters behind the pointers of one program."""

    def __init__(self, program: Program):
        self.flows: Flows = program.kept(Flows)
        self.parameters = {param.value for param in program.params}
        self._known: dict[Value, frozenset[Value]] = {}

    def behind(self, pointer: Value) -> frozenset[Value]:
        """The parameters that `pointer` may have been made from."""
        if pointer not in self._known:
            found, seen, todo = set(), set(), [pointer]
            while todo:
                value = todo.pop()
                if value in seen or not isinstance(element_of(value.type), Pointer):
                    continue
                seen.add(value)
                if value in self.parameters:
                    found.add(value)
                op = self.flows.maker.get(value)
                todo += self.flows.sources.get(value, ())
                if op is not None and op.row.pointer_of:
                    todo.append(getattr(op, op.row.pointer_of))
                elif op is not None and not op.row.hands_on and not op.row.loads:
                    todo += op.operands
            self._known[pointer] = frozenset(found)
        return self._known[pointer]
