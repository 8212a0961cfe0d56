"""The source lines that made a stored value: from a store backwards through arithmetic, control flow and shared memory.

Input: a program and an op that writes global memory. Output: source positions, the nearest to the store first. For example:

    total += tlx.local_load(ring[slot])                             line 17
    tl.store(y + at, total)                                         line 19
    tlx.async_descriptor_load(x, ring[slot], [row, 0], full[slot])  line 27, in another task
    made_of(program, store)                                         lines 17 and 27, and those where `total` and `row` begin

Addresses count where something is read, since a wrong one brings a wrong value; barriers, masks of the store and its own address
do not. Every write into a buffer counts, in whatever order the tasks make them. A call of native code is several ops in one place,
which declare what it reads and writes: there all of them count.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from ...ir import Barrier, Buffer, Descriptor, Op, Pointer, Program, Site, Token, Value
from ...ir.types import element_of
from .flows import Flows

_WHERE = ("pointer", "descriptor", "offsets", "mask", "predicate", "row", "rows", "column")    # of a store: places, no values


def made_of(program: Program, store: Op) -> tuple[Site, ...]:
    """The positions of the ops whose results may reach memory by `store`, each line once, without that of the store itself."""
    return tuple(_Search(program).back_from(store))


class _Search:
    def __init__(self, program: Program):
        self.flows: Flows = program.kept(Flows)
        self.fills: dict[Value, list[Op]] = {}          # by the buffer array: the ops that write into it
        self.beside: dict[Site, list[Op]] = {}          # the ops of one place
        for op in program.walk():
            self.beside.setdefault(op.site, []).append(op)
            for array in self.flows.touched(op, op.row.writes):
                self.fills.setdefault(array, []).append(op)
        self.seen: set[Value] = set()
        self.found: dict[tuple[str, int], Site] = {}

    def back_from(self, store: Op) -> list[Site]:
        self._note(store)
        places = {value for name in _WHERE if name in store.row.places for value in _values(getattr(store, name))}
        todo = deque(value for value in self._made_from(store) if value not in places)
        while todo:
            value = todo.popleft()
            if value in self.seen or isinstance(value.type, (Barrier, Buffer, Token)):      # buffers: by the ops that fill them
                continue
            self.seen.add(value)
            todo.extend(self.flows.sources.get(value, ()))
            op = self.flows.maker.get(value)
            if op is not None and not op.row.hands_on:
                if op.name != "constant":
                    self._note(op)
                todo.extend(self._made_from(op))
        return list(self.found.values())[1:]

    def _note(self, op: Op) -> None:
        self.found.setdefault((op.site.file, op.site.line), op.site)

    def _made_from(self, op: Op) -> Iterator[Value]:
        """The operands of an op, and of all that fills the buffers it reads; the lines of these are noted."""
        for one in self.beside[op.site] if _is_declared_beside(op) else (op, ):
            yield from one.operands
            for array in self.flows.touched(one, one.row.reads):
                if array not in self.seen:
                    self.seen.add(array)
                    for fill in self.fills.get(array, ()):
                        self._note(fill)
                        yield from self._made_from(fill)


def _is_declared_beside(op: Op) -> bool:
    """True if other ops of the same place say what an op writes, or which of its buffers it reads."""
    touched = {value for name, _ in op.row.touches for value in _values(getattr(op, name))}
    if not touched:
        return any(isinstance(value.type, Buffer) for value in op.operands)
    return all(isinstance(element_of(value.type), (Buffer, Descriptor, Pointer)) for value in op.operands)


def _values(operand) -> tuple[Value, ...]:
    return tuple(value for value in (operand if isinstance(operand, tuple) else (operand, )) if isinstance(value, Value))
