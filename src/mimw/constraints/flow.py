"""Which value becomes which at the borders of `if`, `for`, `while` and task regions; no other file knows how regions hand on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..ir.core import Op, Program, Value


@dataclass(frozen=True)
class Carry:
    """Operand `index` of `op` (the control op or a terminator in one of its blocks) becomes `target`."""

    op: Op
    index: int
    target: Value

    @property
    def source(self) -> Value:
        return self.op.operands[self.index]


def carries(op: Op) -> tuple[Carry, ...]:
    """All hand-overs of one control op; empty for every other op.

    A value that runs round a loop has one source before the loop and one in its body, and one target as block
    argument and one as result (`for`), so whoever joins sources per target gets one answer for all four.
    """
    return tuple(_CARRIES[op.name](op)) if op.name in _CARRIES else ()


def all_carries(program: Program) -> tuple[Carry, ...]:
    """The hand-overs of every control op of the program, in program order."""
    return tuple(carry for op in program.walk() for carry in carries(op))


def _give(op: Op, count: int, *targets: tuple[Value, ...]) -> Iterator[Carry]:
    """The last `count` operands of `op` become the targets, position by position."""
    first = len(op.operands) - count
    for position in range(count):
        for target in targets:
            yield Carry(op, first + position, target[position])


def _if(op: Op) -> Iterator[Carry]:
    for block in op.blocks:
        if block.yielded:
            yield from _give(block.ops[-1], len(op.results), op.results)


def _for(op: Op) -> Iterator[Carry]:
    (body, ) = op.blocks
    yield from _give(op, len(op.results), body.args[1:], op.results)
    if body.yielded:
        yield from _give(body.ops[-1], len(op.results), body.args[1:], op.results)


def _while(op: Op) -> Iterator[Carry]:
    before, after = op.blocks
    yield from _give(op, len(before.args), before.args)
    yield from _give(before.ops[-1], len(op.results), after.args, op.results)
    if after.yielded:
        yield from _give(after.ops[-1], len(before.args), before.args)


def _tasks(op: Op) -> Iterator[Carry]:
    """The default task gives the results; it runs on the warps that go on with them."""
    if op.results:
        yield from _give(op.blocks[0].ops[-1], len(op.results), op.results)


_CARRIES = {"if": _if, "for": _for, "while": _while, "warp_specialize": _tasks}
