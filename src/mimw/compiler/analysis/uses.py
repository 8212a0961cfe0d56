"""Def-use index: the op that defines a value, the ops that use it, and the blocks in which an op stands. The other analyses
start from this index.

Input: a program. Output: its `Uses`, kept with the program. For example:

    uses = uses_of(program)
    uses.definition[value], uses.of(value)       the op that makes a value (None: an argument), and the `Use`s of the value
    uses.task(op), uses.loops(op)                the task that runs an op, and the loops around it
"""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from typing import NamedTuple

from ...ir import Block, Op, Program, Site, Task, Value


class Use(NamedTuple):
    """`op` takes the value as `op.operands[index]`."""

    op: Op
    index: int


class Location(NamedTuple):
    """The position of an op or block argument: in `block`, number `index` of the blocks of `parent` (None: the kernel's
    body)."""

    block: Block
    parent: Op | None
    index: int


def uses_of(program: Program) -> Uses:
    """The def-use index of a program, made once for each."""
    return program.kept(Uses)


class Uses:
    """The def-use index of one program; a program never changes, so neither does this. `uses_of` keeps it.

    `ops` is every op in program order, `position` its number there. `definition[value]` is the op whose result the
    value is, or None for a parameter or a block argument; `argument[value]` is the place of the block whose argument it
    is.
    """

    def __init__(self, program: Program):
        self.program = program
        self.ops: list[Op] = []
        self.position: dict[Op, int] = {}
        self.last: dict[Op, int] = {}
        self.definition: dict[Value, Op | None] = {param.value: None for param in program.params}
        self.argument: dict[Value, Location] = {}
        self.place: dict[Op, Location] = {}
        self.known: dict = {}       # what analyses of scalars keep, each under a key of its own
        self._index(Location(program.body, None, 0))

    def _index(self, place: Location) -> None:
        for arg in place.block.args:
            self.definition[arg], self.argument[arg] = None, place
        for op in place.block.ops:
            self.position[op] = len(self.ops)
            self.ops.append(op)
            self.place[op] = place
            for result in op.results:
                self.definition[result] = op
            for index, block in enumerate(op.blocks):
                self._index(Location(block, op, index))
            self.last[op] = len(self.ops) - 1

    @cached_property
    def _uses(self) -> dict[Value, list[Use]]:
        """Made when uses are asked for: most questions go from a value to where it comes from."""
        found: dict[Value, list[Use]] = defaultdict(list)
        for op in self.ops:
            for index, operand in enumerate(op.operands):
                found[operand].append(Use(op, index))
        return found

    def of(self, value: Value) -> tuple[Use, ...]:
        """The uses of a value in program order."""
        return tuple(self._uses.get(value, ()))

    def parents(self, op: Op) -> tuple[Op, ...]:
        """The ops around `op`, innermost first."""
        return tuple(place.parent for place in self._places(op) if place.parent is not None)

    def loops(self, op: Op) -> tuple[Op, ...]:
        """The loops around `op`, outermost first."""
        return tuple(parent for parent in reversed(self.parents(op)) if "loop" in parent.row.traits)

    def conditional(self, op: Op) -> bool:
        """True if an `if` stands around `op`."""
        return any(parent.name == "if" for parent in self.parents(op))

    def task(self, op: Op) -> Task | None:
        """The task that runs `op`, or None where the whole kernel does."""
        for place in self._places(op):
            if place.parent is not None and place.parent.name == "warp_specialize":
                return place.parent.attrs["tasks"][place.index]
        return None

    def site(self, value: Value) -> Site:
        """The source position of a value: that of its op, of the op whose block has it as an argument, or of the kernel for a
        parameter."""
        op = self.definition[value]
        if op is None and value in self.argument and self.argument[value].parent is not None:
            op = self.argument[value].parent
        return op.site if op is not None else self.program.site

    def _places(self, op: Op):
        place = self.place[op]
        yield place
        while place.parent is not None:
            place = self.place[place.parent]
            yield place


def task_label(task: Task | None) -> str:
    """A task's name for people, with the number of a replica; `kernel` is the code outside of all tasks."""
    if task is None:
        return "kernel"
    return f"{task.name}[{task.replica}]" if task.replicas > 1 else task.name
