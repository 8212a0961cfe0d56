"""Names of a kernel at one op: which value each name stands for there.

Input: a program and an op. Output: values by name. For example, in the loop of a kernel that adds up rows:

    Scopes(program).at(op)          {"total": %total.19, "row": %row, "slot": %slot, "ring": %ring, "rows": %rows}

The program has one value for each assignment, and what was assigned last before the op, in its block or one around it, is what the
name means: in the function that the op is in first, then in those that called it. Names that nothing uses have no value: the
compiler drops them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...ir import Block, Op, Program, Value


class Scopes:
    """The names of one program."""

    def __init__(self, program: Program):
        self.program = program
        self._places: dict[Op, tuple[Block, int, Op | None]] = {}       # by op: its block, its place there, the op around
        self._known: dict[Op | None, dict[str, Value]] = {}
        self._note(program.body, None)

    def _note(self, block: Block, around: Op | None) -> None:
        for index, op in enumerate(block.ops):
            self._places[op] = block, index, around
            for inner in op.blocks:
                self._note(inner, op)

    def at(self, op: Op | None) -> dict[str, Value]:
        """The named values that an op could take; of no op, the kernel's parameters."""
        if op not in self._known:
            self._known[op] = self._at(op)
        return self._known[op]

    def _at(self, op: Op | None) -> dict[str, Value]:
        nearest = {value: place for place, value in enumerate(self._visible(op))}
        found: dict[str, Value] = {}
        site = op.site if op is not None else None
        while site is not None:         # the function that the op is in, then those that called it
            for name, values in self.program.names.get((site.function, site.caller), {}).items():
                there = [value for value in values if isinstance(value, Value) and value in nearest]
                if there:
                    found.setdefault(name, min(there, key=nearest.__getitem__))
            site = site.caller
        for value in nearest:           # of values that a pass has made there is the first name only
            if value.name:
                found.setdefault(value.name, value)
        return found

    def constant(self, op: Op | None, name: str) -> tuple[Any, ...]:
        """(the constant that a name means at an op, ); () if it means none, or several in turn, as the counter of a loop that is
        unrolled."""
        site = op.site if op is not None else None
        while site is not None:
            meant = self.program.names.get((site.function, site.caller), {}).get(name)
            if meant is not None:
                alike = all(type(one) is type(meant[0]) and one == meant[0] for one in meant)
                return meant[:1] if alike and not isinstance(meant[0], Value) else ()
            site = site.caller
        return ()

    def _visible(self, op: Op | None) -> Iterator[Value]:
        """The values that an op could take, the nearest first."""
        while op is not None:
            block, index, around = self._places[op]
            for earlier in reversed(block.ops[:index]):
                yield from earlier.results
            yield from block.args
            op = around
        for param in self.program.params:
            yield param.value
