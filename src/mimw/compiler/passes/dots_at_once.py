"""Asynchronous products into registers on a chip without wgmma: products of tiles, done at once.

Input: a program and its target. Output: the program with a `dot` of what the buffers hold in the place of each such product; the
same object where there is wgmma, or no such product. For example, on gfx950:

    %acc.2 = async_dot %a, %b, %acc                    %0 = local_load %a; %1 = local_load %b; %acc.2 = dot %0, %1, %acc
    %acc.3 = async_dot_wait pending=0, %acc.2          nothing: %acc.3 is %acc.2

An author's look at a result that no wait has finished is refused as on the chip with wgmma: the kernel is one source.
"""

from __future__ import annotations

from dataclasses import replace

from ...ir import Block, Buffer, Builder, Op, Program, Value
from ...target import Target
from .check_async_dot import check_async_dot


def dots_at_once(program: Program, target: Target) -> Program:
    """The program with those products. AsyncDotReadEarly as said in `check_async_dot`."""
    if "wgmma" not in target.mapped or not program.where(lambda row: row.needs == "wgmma"):
        return program
    check_async_dot(program, target)
    return replace(program, body=_block(program.body, Builder()))


def _block(block: Block, builder: Builder) -> Block:
    outside = builder.open()
    for op in block.ops:
        if op.name == "async_dot":
            _product(op, builder)
        elif op.name == "async_dot_wait":
            builder.env[op.result] = builder.now(op.value)
        else:
            inside = op.with_blocks(lambda inner: _block(inner, builder))
            builder.copy(inside, inside.args)
    return block.with_ops(builder.close(outside))


def _product(op: Op, builder: Builder) -> None:
    def tile(operand: Value) -> Value:
        value = builder.now(operand)
        if not isinstance(value.type, Buffer):
            return value
        return builder.emit("local_load", (value, None), op.site, layout=None)

    if op.acc is None or op.attrs.get("fresh"):
        start = builder.constant(0, op.result.type, op.site)
    else:
        start = builder.now(op.acc)
    args = tile(op.a), tile(op.b), start, op.precision, op.max_imprecise
    builder.env[op.result] = builder.emit("dot", args, op.site, label=op.result.name)
