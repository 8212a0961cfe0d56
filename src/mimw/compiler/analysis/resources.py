"""Resources and work of each task: warps, registers, buffers, barriers, copies and dots, for the resource table.

Input: a program and its target. Output: a `TaskResources` for each task of the author's:

    TaskResources("producer", "load", num_warps=1, .., buffers=("a", "b"), waits=("free", ), arrives=("full", ), copies=2, dots=0)

Of a pipe called `kv` the barriers are "kv commit" and "kv release".
"""

from __future__ import annotations

from dataclasses import dataclass

from ...ir import Op, Program
from ...target import Target
from .barriers import BarrierArray, barrier_arrays
from .memory_uses import memory_uses
from .registers import own_regions, register_plan
from .uses import Uses, uses_of


@dataclass(frozen=True)
class TaskResources:
    """One task. `role` says in a word what its ops make it: mma (dots), load (starts copies in), schedule (asks for the
    work of clusters that have not started), store (copies out), idle (no ops), else compute. `copies`, those to other
    CTAs included, and `dots` count ops in the text of the kernel, not at run time. Regions in which the compiler gathers
    all warps for a cluster barrier are left out."""

    name: str
    role: str
    num_warps: int
    requested: int | None
    registers: int
    buffers: tuple[str, ...]
    waits: tuple[str, ...]
    arrives: tuple[str, ...]
    copies: int
    dots: int


def task_resources(program: Program, target: Target) -> tuple[TaskResources, ...]:
    """The tasks of the program in the order of `register_plan`."""
    uses = uses_of(program)
    bodies = [[op for inner in block.ops for op in inner.walk()] for region in own_regions(program) for block in region.blocks]
    rows = register_plan(program, target)
    if not bodies:
        bodies = [uses.ops]
    buffers = _buffers(uses)
    arrays = barrier_arrays(program, uses)
    found = []
    for row, body in zip(rows, bodies, strict=True):
        inside = set(body)
        waits = _names(arrays, inside, "wait")
        arrives = _names(arrays, inside, "arrive", "expect", "complete", "commit")
        found.append(TaskResources(row.name, _role(body), row.num_warps, row.requested, row.granted,
                                   tuple(name for name, ops in buffers if not inside.isdisjoint(ops)), waits, arrives,
                                   sum(bool(op.row.copy) for op in body), sum(_is_dot(op) for op in body)))
    return tuple(found)


def _names(arrays: tuple[BarrierArray, ...], inside: set[Op], *kinds: str) -> tuple[str, ...]:
    """The arrays on which the ops `inside` have accesses of these kinds; of a pipe what its barriers are for."""
    used = (array for array in arrays if any(one.op in inside for one in array.of_kind(*kinds)))
    return tuple(dict.fromkeys(array.name if array.pipe is None else str(array.pipe) for array in used))


def _buffers(uses: Uses) -> list[tuple[str, tuple[Op, ...]]]:
    allocs = [op for op in uses.ops if op.row.allocates == "buffer"]
    return [(op.result.name or f"buffer{number}", memory_uses(uses, op.result)[0]) for number, op in enumerate(allocs)]


def _role(body: list[Op]) -> str:
    if any(map(_is_dot, body)):
        return "mma"
    started = {op.row.copy for op in body if "async" in op.row.effects or op.row.copy == "out"}
    if "in" in started:
        return "load"
    if any("steals" in op.row.traits for op in body) and not started & {"out"}:
        return "schedule"
    if not body:
        return "idle"
    return "store" if "out" in started else "compute"


def _is_dot(op: Op) -> bool:
    return "dot" in op.row.traits
