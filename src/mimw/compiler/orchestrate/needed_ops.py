"""A program without what no effect of it needs: dead loads, products and values that loops carry for themselves alone.

Input: a plain program. Output: the same work in fewer ops; the program itself if nothing is left out. For example:

    for k: s = dot(a.load(..), b.load(..)); acc = acc * 2; store(p, acc)        the loop with `acc` and the store

Triton leaves such ops out as well. The steps behind it count the uses of a load: one that no task has would hold a slot for ever.
"""

from __future__ import annotations

from dataclasses import replace

from ...ir import Block, Op, Program
from ..analysis.slices import Slice
from .rebuild import Rebuild
from .rings import Rings


def needed(program: Program) -> Program:
    """The program's effects, and what they take."""
    found = Slice(program)
    for op in program.walk():
        if "terminator" not in op.row.traits and not _is_load(op) and not found.may_repeat(op):
            found.add(op)
    while loads := [op for op in found.ops if _is_load(op) and op not in found.roots]:
        for op in loads:
            found.add(op)
    if all(op in found.ops or "terminator" in op.row.traits for op in program.walk()):
        return program
    body = Rebuild(program, found, Rings([], set()), {}).written(program.body)
    return replace(program, body=Block(program.body.args, body))


def _is_load(op: Op) -> bool:
    """True of a load by descriptor, which changes nothing."""
    return op.name == "descriptor_load"
