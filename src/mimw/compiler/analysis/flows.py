"""Dependences between values: through arithmetic, control flow and shared memory.

Input: a program. Output: a `Flows`, which knows the sources of each value and the arrays that each op may touch:

    flows = program.kept(Flows)     made once for all readers
    flows.reached({value})          every value that depends on the value
    flows.arrays(buffer)            the buffer arrays that a buffer may be a part of
"""

from __future__ import annotations

from collections.abc import Iterator

from ...ir import Barrier, Buffer, DescriptorSlots, Op, Program, Storage, Value
from ...ir.flow import carries, induction

_PLACES = (Barrier, Buffer, DescriptorSlots, Storage)


class Flows:
    """The flows of one program. `maker` is the op of each result, `sources` where carried values come from; by the buffer array:
    `stores`, the ops that put values of the task into it, `reads`, the ops with results that read it; and `filled`, the arrays that
    a copy or another CTA fills, too, whose bytes only a full run knows."""

    def __init__(self, program: Program):
        self.program = program
        self.maker: dict[Value, Op] = {result: op for op in program.walk() for result in op.results}
        self.sources: dict[Value, list[Value]] = {}                  # of carried values: where they come from
        for op in program.walk():
            for target, source in _carried(op):
                self.sources.setdefault(target, []).append(source)

        self.stores: dict[Value, list[Op]] = {}
        self.reads: dict[Value, list[Op]] = {}
        self.filled: set[Value] = set()
        for op in program.walk():
            row = op.row
            for root in self.touched(op, row.writes):
                if row.stores_registers or "steals" in row.traits:      # an answer is known once the request is decided
                    self.stores.setdefault(root, []).append(op)
                else:
                    self.filled.add(root)
            if op.results:
                for root in self.touched(op, row.reads):
                    self.reads.setdefault(root, []).append(op)

    def touched(self, op: Op, operands: tuple[str, ...]) -> set[Value]:
        """The arrays behind those of the op's operands that are buffers."""
        if not operands:        # of most ops
            return set()
        values = (getattr(op, name) for name in operands)
        return {root for value in values if isinstance(getattr(value, "type", None), Buffer) for root in self.arrays(value)}

    def arrays(self, buffer: Value) -> set[Value]:
        """The arrays that a buffer may be a part of."""
        found, todo, seen = set(), [buffer], set()
        while todo:
            value = todo.pop()
            if value in seen:
                continue
            seen.add(value)
            seen_through = self.seen_through(value)
            if seen_through is not None:
                todo.append(seen_through)
            elif value in self.sources:
                todo += self.sources[value]
            else:
                found.add(value)
        return found

    def seen_through(self, value: Value) -> Value | None:
        """The value of which `value` is a view; None if `value` is no view, as for an array with memory of its own."""
        op = self.maker.get(value)
        return op.viewed if op is not None else None

    def reached(self, found: set[Value]) -> set[Value]:
        """`found` and all that depends on it: through arithmetic, control flow and shared memory, not through global memory."""
        found = set(found)
        users: dict[Value, list[Op]] = {}
        for op in self.program.walk():
            for value in op.operands:
                users.setdefault(value, []).append(op)
        flows: dict[Value, list[Value]] = {}
        for target, sources in self.sources.items():
            for source in sources:
                flows.setdefault(source, []).append(target)
        todo = list(found)
        while todo:
            value = todo.pop()
            reached = list(flows.get(value, ()))
            for op in users.get(value, ()):
                if op.row.writes:
                    reached += [result for array in self.touched(op, op.row.writes) for read in self.reads.get(array, ())
                                for result in read.results]
                if not op.row.hands_on:
                    reached += (result for result in op.results if not isinstance(result.type, _PLACES))
            new = [one for one in reached if one not in found]
            found.update(new)
            todo += new
        return found


def _carried(op: Op) -> Iterator[tuple[Value, Value]]:
    """(value inside or behind a region, value that becomes it or decides on it: the condition of an `if`, the start of a `for`)."""
    for carry in carries(op):
        yield carry.target, carry.source
    if op.name == "for":
        yield induction(op), op.start
    elif op.name == "if":
        for result in op.results:
            yield result, op.condition
