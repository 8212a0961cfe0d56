"""Copies of `tle.gpu.copy` that follow each other travel together: a wait for each one would cost a trip to memory each.

Input: a program. Output: the program in which a run of such copies is completed at once, or the same object:

    copy a; wait; copy b; wait       becomes       copy a; copy b; wait

A wait moves down to that of the next copy if nothing between the two could see the difference: only arithmetic, views,
and copies into other memory.
"""

from __future__ import annotations

from dataclasses import replace

from ...ir import Block, Op, Program, Value
from ...ir.ops import is_pure
from ..constraints.views import find_views


def join_copies(program: Program) -> Program:
    """The program with runs of such copies completed at once; the same object if there are none."""
    if not program.where(lambda row: "fetch" in row.traits) and not any("of_copy" in op.attrs for op in program.walk() if op.attrs):
        return program
    views = find_views(program)
    memory = {value: frozenset(view.alloc for view in seen) for value, seen in views.items()}
    return replace(program, body=_block(program.body, memory))


def _block(block: Block, memory: dict[Value, frozenset[Value]]) -> Block:
    ops = [op.with_blocks(lambda inner: _block(inner, memory)) for op in block.ops]
    changed: dict[int, Op | None] = {}
    for run in filter(lambda run: len(run) > 1, _runs(ops, memory, lambda op: "fetch" in op.row.traits)):
        total = sum(ops[index].buffer.type.bytes for index in run)
        for index in run:
            changed[index] = ops[index].with_attrs(bytes=total if index == run[0] else 0, more=index != run[-1])
    for run in _runs(ops, memory, lambda op: "of_copy" in op.attrs):
        waits = [index for index in run if ops[index].name == "async_wait"]
        changed.update(dict.fromkeys(waits[:-1]))
    kept = (changed.get(index, op) for index, op in enumerate(ops))
    return block.with_ops(op for op in kept if op is not None)


def _runs(ops: list[Op], memory, belongs):
    """Indices of ops that follow each other but for pure ones; no two of a run write the same memory."""
    run: list[int] = []
    written: set[Value] = set()
    for index, op in enumerate(ops):
        if belongs(op):
            target = memory.get(op.buffer, frozenset()) if op.row.copy == "in" else frozenset()
            if written & target:
                yield run
                run, written = [], set()
            run.append(index)
            written |= target
        elif not is_pure(op.name):
            yield run
            run, written = [], set()
    yield run
