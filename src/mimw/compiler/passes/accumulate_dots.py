"""`acc += tl.dot(a, b)` becomes `acc = tl.dot(a, b, acc)`: tensor cores add at no cost.

Input: a program. Output: the program in which a product from zero and the addition of its result are one op:

    %p = dot %a %b %zero; %s = fadd %acc %p        becomes        %s = dot %a %b %acc

Stock Triton does the same before layouts come in (its combine pass). Without it each product would be waited for, held
in registers beside the sum, and added there.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from ...ir import Block, Op, Program, Value


def accumulate_dots(program: Program) -> Program:
    """The program with each sum of a `tl.dot` from zero and a tile as one dot; the dot must have no other use."""
    if not program.named("dot"):
        return program
    ops = list(program.walk())
    made = {result: op for op in ops for result in op.results}
    uses = Counter(value for op in ops for value in op.operands)
    fresh = {op.result for op in ops if op.name == "dot" and uses[op.result] == 1 and op.max_imprecise == 0
             and is_zero(op.acc, made)}
    return replace(program, body=_block(program.body, fresh))


def is_zero(value: Value, made: dict[Value, Op]) -> bool:
    """True for a zero, or a tile filled with it; `made` has the op that makes each value."""
    op = made.get(value)
    if op is not None and op.name == "splat":
        op = made.get(op.value)
    return op is not None and op.name == "constant" and op.value == 0


def _block(block: Block, fresh: set[Value]) -> Block:
    """The block with its sums replaced; a dot stays where it is if its sum stands in another block."""
    dots = {op.result: op for op in block.ops if op.name == "dot" and op.result in fresh}
    ops: list[Op] = []
    for op in block.ops:
        product = next((value for value in op.operands if value in dots), None) if "sum" in op.row.traits else None
        if product is not None:
            dot = dots[product]
            (tile, ) = (value for value in op.operands if value is not product)
            ops.remove(dot)
            op = replace(dot.with_operands(acc=tile), results=op.results)
        ops.append(op.with_blocks(lambda inner: _block(inner, fresh)))
    return block.with_ops(ops)
