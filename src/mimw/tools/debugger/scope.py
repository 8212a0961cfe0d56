"""Names of a kernel at one op: which value each name stands for there.

Input: a program and an op. Output: values by name. For example, in the loop of a kernel that adds up rows:

    Scopes(program).at(op)          {"total": %total.19, "row": %row, "slot": %slot, "ring": %ring, "rows": %rows}

The program has one value for each assignment, and what was assigned last before the op, in its block or one around it, is what the
name means. Names that nothing uses have no value: the compiler drops them.
"""

from __future__ import annotations

from ...ir import Block, Op, Program, Value


class Scopes:
    """The names of one program."""

    def __init__(self, program: Program):
        self.program = program
        self._places: dict[Op, tuple[Block, int, Op | None]] = {}       # by op: its block, its place there, the op around
        self._known: dict[Op, dict[str, Value]] = {}
        self._note(program.body, None)

    def _note(self, block: Block, around: Op | None) -> None:
        for index, op in enumerate(block.ops):
            self._places[op] = block, index, around
            for inner in op.blocks:
                self._note(inner, op)

    def at(self, op: Op | None) -> dict[str, Value]:
        """The named values that an op could take; of no op, the kernel's parameters."""
        if op in self._known:
            return self._known[op]
        found: dict[str, Value] = {}
        inner = op
        while inner is not None:
            block, index, around = self._places[inner]
            for earlier in reversed(block.ops[:index]):
                for value in earlier.results:
                    found.setdefault(value.name, value)
            for value in block.args:
                found.setdefault(value.name, value)
            inner = around
        for param in self.program.params:
            found.setdefault(param.name, param.value)
        found.pop("", None)
        if op is not None:
            self._known[op] = found
        return found
