"""Ops once more, on values of their own: a loop that a kernel has twice.

Input: a builder, ops, and what some values are in the copy. Output: the ops are written once more. For example:

    cloned(b, loop, {})                     the same loop; its results
    cloned_ops(b, block.ops, {arg: init})   the ops of a block, with `init` in place of its argument; the dict has all new values
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...ir import Block, Builder, Op, Value


def cloned(b: Builder, op: Op, env: dict[Value, Value]) -> tuple[Value, ...]:
    """Write an op once more; its new results. `env` gets the new values."""
    blocks = tuple(_block(b, block, env) for block in op.blocks)
    results = _fresh(op.results, env)
    b.ops.append(Op(op.name, _now(op.args, env), results, blocks, op.attrs, op.site))
    return results


def cloned_ops(b: Builder, ops: Iterable[Op], env: dict[Value, Value]) -> None:
    """Write ops once more."""
    for op in ops:
        cloned(b, op, env)


def _block(b: Builder, block: Block, env: dict[Value, Value]) -> Block:
    args, outside = _fresh(block.args, env), b.open()
    cloned_ops(b, block.ops, env)
    return Block(args, b.close(outside))


def _fresh(values: tuple[Value, ...], env: dict[Value, Value]) -> tuple[Value, ...]:
    made = tuple(Value(value.type, value.name) for value in values)
    env.update(zip(values, made))
    return made


def _now(arg: Any, env: dict[Value, Value]) -> Any:
    if isinstance(arg, tuple):
        return tuple(_now(one, env) for one in arg)
    return env.get(arg, arg) if isinstance(arg, Value) else arg
