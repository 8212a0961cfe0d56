"""Flow of values through regions: which operand becomes which block argument, and which yielded value becomes which result.

Input: an op with regions, or a program. Output: `Carry`s, `LoopCarry`s, and the types that a region's block takes and yields. The
rows of the op table say it (`hands_on`), this file reads the rows, and no other file knows. For example:

    %end = for %0 %n %1 (%init) { body(%i, %acc) { ...; yield %next } }
    hands_on="inits->body,results body->body,results"
    carries(op)           %init -> %acc, %init -> %end, %next -> %acc, %next -> %end
    loop_carries(op)      LoopCarry(init=%init, argument=%acc, after=%next, result=%end)

A value that runs round a `for` loop has two sources, one before the loop and one in the loop's body, and two targets, a block
argument and a result. An analysis that joins the sources of each target therefore has one answer for all four values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .core import Block, Op, Program, Value
from .types import Type, element_of

RESULTS = "results"


@dataclass(frozen=True)
class Carry:
    """Operand `index` of `op` (the op with the regions, or a terminator in one of its blocks) becomes `target`."""

    op: Op
    index: int
    target: Value

    @property
    def source(self) -> Value:
        return self.op.operands[self.index]


@dataclass(frozen=True)
class LoopCarry:
    """One value that a loop carries round.

    `init` is the value before the first round and `argument` the value during a round. `after` is the value that a round yields,
    None if the block has no terminator. `result` is the value behind the loop; None for a `while`, whose results are the values of
    its `condition`.
    """

    init: Value
    argument: Value
    after: Value | None
    result: Value | None


def terminator(block: Block) -> Op | None:
    """The op that ends a block and hands values to the op around the block: a `yield` or a `condition`."""
    last = block.ops[-1] if block.ops else None
    return last if last is not None and "terminator" in last.row.traits else None


def region(op: Op, name: str) -> Block:
    """The block of a region, by the name that the op's row gives it; of a `warp_specialize` the default task's."""
    return op.blocks[op.row.regions.index(name)]


def carries(op: Op) -> tuple[Carry, ...]:
    """All hand-overs of one op with regions; empty for an op without regions, and for one that computes by its region."""
    return tuple(carry for source, targets in op.row.hands_on for carry in _carries(op, source, targets))


def all_carries(program: Program) -> tuple[Carry, ...]:
    """The hand-overs of every op of the program, in program order."""
    return program.kept(_all_carries)


def handed_to(op: Op, index: int, parent: Op | None) -> tuple[Value, ...]:
    """The values that `op.operands[index]` becomes: `op` has regions, or is a terminator in a block of `parent`."""
    around = parent if "terminator" in op.row.traits else op
    return tuple(carry.target for carry in carries(around) if carry.op is op and carry.index == index) if around else ()


def bounds(loop: Op) -> tuple[Value, Value, Value]:
    """Start, end and step of a `for`."""
    return loop.start, loop.end, loop.step


def induction(loop: Op) -> Value:
    """The induction variable of a `for`: the first argument of its block."""
    return loop.blocks[0].args[0]


def loop_carries(loop: Op) -> tuple[LoopCarry, ...]:
    """The values that a `for` or a `while` carries, in their order."""
    inits, first, last = loop.inits, loop.blocks[0], terminator(loop.blocks[-1])
    arguments = first.args[len(first.args) - len(inits):]
    after = last.values if last is not None else (None, ) * len(inits)
    results = loop.results if len(loop.blocks) == 1 else (None, ) * len(inits)
    return tuple(map(LoopCarry, inits, arguments, after, results))


def loop_carry(loop: Op, value: Value) -> LoopCarry | None:
    """The carry of a loop whose argument or result the value is; None for a loop's induction variable."""
    return next((carry for carry in loop_carries(loop) if value is carry.argument or value is carry.result), None)


def entering(op: Op, argument: Value) -> Value | None:
    """The value of a block argument when the block runs for the first time: for the induction variable of a `for`, the start."""
    if op.name == "for" and argument is induction(op):
        return op.start
    return next((carry.source for carry in carries(op) if carry.target is argument), None)


def argument_types(op: Op) -> tuple[tuple[Type, ...] | None, ...]:
    """The types of the arguments that each block of an op has to take; None where the op's row leaves them open."""
    return tuple(_argument_types(op, index) for index in range(len(op.blocks)))


def yielded_types(op: Op) -> tuple[tuple[Type, ...] | None, ...]:
    """The types of the values that each block of an op has to hand on; None where nothing takes them."""
    return tuple(_yielded_types(op, index) for index in range(len(op.blocks)))


def region_name(op: Op, index: int) -> str:
    """The name of block number `index`: the regions of a `warp_specialize` are `default`, then as many `task`s as there are."""
    names = op.row.regions
    return names[min(index, len(names) - 1)]


def _carries(op: Op, source: str, targets: tuple[str, ...]) -> Iterator[Carry]:
    """The hand-overs from one operand or region, position by position; a block takes carried values as its last arguments."""
    holder = op if source in op.row.params else terminator(region(op, source))
    if holder is None:
        return
    values = getattr(op, source) if holder is op else holder.values
    taken = [op.results if target == RESULTS else region(op, target).args for target in targets]
    first = len(holder.operands) - len(values)
    for position in range(len(values)):
        for target in taken:
            yield Carry(holder, first + position, target[len(target) - len(values) + position])


def _all_carries(program: Program) -> tuple[Carry, ...]:
    return tuple(carry for op in program.walk() for carry in carries(op))


def _argument_types(op: Op, index: int) -> tuple[Type, ...] | None:
    if "combines" in op.row.traits:
        return tuple(element_of(value.type) for value in op.values) * 2
    if "maps" in op.row.traits:
        return tuple(element_of(value.type) for value in op.values for _ in range(op.pack))
    name = region_name(op, index)
    carried = next((_source_types(op, source) for source, targets in op.row.hands_on if name in targets), ())
    return (op.start.type, *carried) if op.name == "for" else carried


def _yielded_types(op: Op, index: int) -> tuple[Type, ...] | None:
    if "combines" in op.row.traits or "maps" in op.row.traits:
        return tuple(element_of(result.type) for result in op.results for _ in range(op.pack if "maps" in op.row.traits else 1))
    name = region_name(op, index)
    targets = next((targets for source, targets in op.row.hands_on if source == name), None)
    if targets is None:
        return None
    if RESULTS in targets:
        return tuple(result.type for result in op.results)
    return tuple(value.type for value in op.inits)


def _source_types(op: Op, source: str) -> tuple[Type, ...]:
    if source in op.row.params:
        return tuple(value.type for value in getattr(op, source))
    last = terminator(region(op, source))
    return tuple(value.type for value in last.values) if last is not None else ()
