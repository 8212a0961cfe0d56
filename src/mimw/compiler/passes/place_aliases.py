"""Gives every buffer array that shares storage its place in it, and the storage its size.

Input: a program whose `local_alloc` ops name a storage or another buffer to reuse, and whose `alias_overlap` ops say
which overlay. Output: the program in which each of these arrays has a `place`, each storage its `bytes` and
`alignment`, and no `alias_overlap` is left; where things lie is decided by `storage.planner`. For example:

    %p = local_alloc type reuse=%spec       becomes       %p = local_alloc type reuse=%spec place=0 .. 256, 4 buffers
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from types import MappingProxyType

from ...ir import Block, Op, Program
from ...target import Target
from ..analysis import Remark, uses_of
from ..constraints import wanted_alignments
from ..storage import StoragePlan, plan_storages


def check_aliases(program: Program, target: Target) -> Iterable[Remark]:
    """A remark on every storage that no buffer uses."""
    for op in program.where(lambda row: row.allocates == "storage"):
        if not any(use.op.row.allocates == "buffer" for use in uses_of(program).of(op.result)):
            yield Remark(f"storage_alias_spec '{op.result.name}' is used by no local_alloc; it takes no memory.", op.site)


def place_aliases(program: Program) -> Program:
    """The program with all places known; the same object if nothing is shared.

    Raises `AliasError` for a spec with two overlaps, for a group whose leaves are no arrays of the spec or are named twice, for
    a spec that is larger than its `buffer_size_bytes`, and for `reuse=` of a buffer that is not known before launch.
    """
    buffers = program.where(lambda row: row.allocates == "buffer")
    if not any(op.reuse for op in buffers) and not program.where(lambda row: row.allocates == "storage"):
        return program
    new: dict[Op, list[Op]] = {op: [] for op in program.named("alias_overlap")}
    for plan in plan_storages(program, wanted_alignments(program)):
        new.update(_placed(plan))
    return replace(program, body=_replaced(program.body, new))


def _placed(plan: StoragePlan) -> dict[Op, list[Op]]:
    """The new ops for those of one storage: its arrays with their places, and the storage with its size, unless it is empty."""
    sized = replace(plan.op, attrs=MappingProxyType({"bytes": plan.total, "alignment": plan.alignment}))
    new = {alloc: [alloc.with_operands(reuse=plan.op.result).with_attrs(place=plan.places[alloc.result])] for alloc in plan.members}
    if plan.made_for is not None:
        new[plan.made_for].insert(0, sized)
    else:
        new[plan.op] = [sized] if plan.members else []
    return new


def _replaced(block: Block, new: dict[Op, list[Op]]) -> Block:
    ops = []
    for op in block.ops:
        ops += new.get(op, [op.with_blocks(lambda inner: _replaced(inner, new))])
    return block.with_ops(ops)
