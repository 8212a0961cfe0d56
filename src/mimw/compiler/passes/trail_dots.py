"""Products in loops whose copies run ahead: the wait for a product comes a trip later, so that one is always under way.

Input: a program behind `shared_operands`. Output: the same where such a loop adds up one product. For example:

    for .. (%sum)                                           for .. (%sum)
      %new = async_dot %a %b %sum                             %new = async_dot %a %b %sum
      %done = async_dot_wait 0 %new                           %done = async_dot_wait 1 %new         the product of the trip before
      async_load .. -> the slot of the trip before            async_load .. -> the slot of the trip before
      yield %done                                             yield %done
                                                            async_dot_wait 0

The slot that is filled is the one that the product of the trip before has read; so nothing is overwritten that is still being read.
`pipeline_dsa` puts the copies of a loop behind its product for that.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...ir import Block, Buffer, Builder, Op, Program, Value
from ...ir.flow import induction
from ..analysis.uses import Uses, uses_of


@dataclass(frozen=True)
class _Trail:
    """The wait in a loop that can let one product run on, and which of the loop's results the sum is."""

    wait: Op
    index: int


def trail_dots(program: Program) -> Program:
    """The program with such waits a trip later; the same object if it has no such loop."""
    uses = uses_of(program)
    found = {op: trail for op in program.named("for") if op.attrs.get("ahead") and (trail := _trail(uses, op)) is not None}
    return replace(program, body=_Rewriter(found).block(program.body)) if found else program


def _trail(uses: Uses, loop: Op) -> _Trail | None:
    """The wait that can come a trip later; None if the loop has another product, or anything that could notice."""
    (body, ), ops = loop.blocks, [op for op in loop.walk() if op is not loop]
    dots = [op for op in ops if "dot" in op.row.traits]
    waits = [op for op in ops if op.name == "async_dot_wait"]
    if len(dots) != 1 or len(waits) != 1 or dots[0].name != "async_dot":
        return None
    (dot, ), (wait, ) = dots, waits
    if dot not in body.ops or wait not in body.ops or wait.pending or wait.value is not dot.result or dot.acc not in body.args:
        return None
    index = body.args.index(dot.acc) - 1
    carried_only = [use.op.name for use in uses.of(wait.result)] == ["yield"] and body.yielded[index] is wait.result
    if dot.acc is induction(loop) or not carried_only or len(uses.of(dot.acc)) != 1 or len(uses.of(dot.result)) != 1:
        return None
    operands = (dot.a, dot.b)
    if not all(isinstance(operand.type, Buffer) for operand in operands):
        return None
    read = {_array(uses, operand) for operand in operands}
    behind = set(body.ops[body.ops.index(wait) + 1:])
    writers = [op for op in ops if any(_array(uses, getattr(op, name)) in read for name in op.row.writes)]
    filled = all(op in behind and op.row.copy == "in" and "async" in op.row.effects for op in writers)
    return _Trail(wait, index) if filled else None


def _array(uses: Uses, buffer: Value) -> Value:
    """The allocation that a buffer is a view of, as far as its ops can be followed."""
    while (op := uses.definition.get(buffer)) is not None and op.viewed is not None:
        buffer = op.viewed
    return buffer


class _Rewriter:
    def __init__(self, found: dict[Op, _Trail]):
        self.found, self.waits, self.writer = found, {trail.wait for trail in found.values()}, Builder()

    def block(self, block: Block) -> Block:
        outside = self.writer.open()
        for op in block.ops:
            if op in self.waits:
                op = op.with_operands(pending=1)
            args = self.writer.now(op.args)
            blocks = tuple(self.block(inner) for inner in op.blocks)
            self.writer.ops.append(replace(op, args=args, blocks=blocks) if blocks or args != op.args else op)
            if op in self.found:
                trail = self.found[op]
                end = op.results[trail.index]
                self.writer.env[end] = self.writer.emit("async_dot_wait", (0, end), trail.wait.site, label=end.name)
        return Block(block.args, self.writer.close(outside))
